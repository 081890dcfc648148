# SPDX-License-Identifier: Apache-2.0
"""JAX in several processes: ``jax.distributed``, global arrays, clusters that it detects."""

from __future__ import annotations

from keepstep.core.facts.config import (
    ClusterSpecInvalid,
    DuplicateMember,
    RankVariableMissing,
    WorldSeen,
    WorldSizeConflict,
)
from keepstep.core.facts.data import BatchNotDivisible, ShapeMismatch
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.network import RendezvousTimeout
from keepstep.core.facts.sync import CollectiveMismatch, ForkOrThread
from keepstep.parse.signature import signature

SIGNATURES = (
    # who am I
    signature(r"(?P<name>coordinator_address) should be defined", RankVariableMissing),
    signature(r"Number of processes must be defined", RankVariableMissing, name="num_processes"),
    signature(r"The process id of the current process must be defined", RankVariableMissing, name="process_id"),
    signature(
        r"KeyError: '(?P<name>SLURM_(?:NTASKS|PROCID|LOCALID|STEP_NUM_NODES|STEP_NODELIST|JOB_NODELIST|STEP_NUM_TASKS|JOB_ID))'",
        RankVariableMissing,
    ),
    signature(r"KeyError: '(?P<name>OMPI_(?:COMM_WORLD_\w+|MCA_\w+))'", RankVariableMissing),
    signature(r"KeyError: '(?P<name>JAX_(?:COORDINATOR|PROCESS|NUM_PROCESSES)\w*)'", RankVariableMissing),
    signature(r"(?P<detail>[Ff]ailed to recognize coordinator address \S{0,80})", ClusterSpecInvalid),
    signature(
        r"(?P<detail>process_id and num_processes must be nonnegative, with process_id < num_processes[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>(?:process_id|num_processes) must be a (?:nonnegative|positive) int[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>coordinator_address [^\n]{0,60}must be (?:of the form|in the format)[^\n]{0,60})",
        ClusterSpecInvalid,
        anchors=("coordinator_address",),
    ),
    signature(r"(?P<detail>Invalid coordinator address[^\n]{0,80})", ClusterSpecInvalid),
    signature(
        r"(?P<detail>jax\.distributed\.initialize\(\) must be called before any JAX (?:computations|calls)[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>distributed\.initialize should only be called once)", ClusterSpecInvalid),
    signature(
        r"Different local topology for node (?P<member>\d+) (?:already exists|has been set previously)", DuplicateMember
    ),
    signature(r"Aborted connect attempt as there is a request from a newer incarnation", DuplicateMember),
    signature(
        r"there's a more recent barrier call for [^\n]{0,120}from the same task",
        DuplicateMember,
        anchors=("a more recent barrier call for",),
    ),
    signature(r"Duplicate node (?:ID|id):? (?P<member>\d+)", DuplicateMember),
    signature(r"Getting local topologies failed: (?P<where>[^\n]{0,120})", RendezvousTimeout),
    signature(
        r"(?:Error while|error in) exchang\w+ topolog\w+",
        RendezvousTimeout,
        where="topology exchange",
        anchors=("exchang",),
    ),
    signature(r"Timed out waiting for (?P<joined>\d+)/(?P<expected>\d+) (?:nodes|processes|tasks)", RendezvousTimeout),
    signature(
        r"Only (?P<joined>\d+) (?:out )?of (?P<expected>\d+) (?:nodes|tasks) (?:have )?connected",
        RendezvousTimeout,
        anchors=("nodes connected", "tasks connected", "nodes have connected", "tasks have connected"),
    ),
    signature(
        r"[Nn]umber of processes[^\n]{0,40}(?P<seen>\d+)[^\n]{0,40}does not match[^\n]{0,40}?(?P<expected>\d+)",
        WorldSizeConflict,
        what="processes",
        anchors=("umber of processes",),
    ),
    signature(
        r"Number of (?:local )?devices (?P<seen>\d+) (?:does not equal|must equal|is not equal to) the (?:product of )?\S* ?mesh[^\n]{0,40}?(?P<expected>\d+)",
        WorldSizeConflict,
        what="devices",
        anchors=("Number of devices", "Number of local devices"),
    ),
    signature(
        r"[Nn]umber of devices (?P<seen>\d+) does not match the product of the parallelism (?P<expected>\d+)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"cannot reshape array of size (?P<seen>\d+) into shape \((?P<expected>[\d,]+)\)[^\n]{0,40}(?:mesh|devices)",
        WorldSizeConflict,
        what="devices",
        anchors=("cannot reshape array of size",),
    ),
    signature(
        r"Initializing distributed JAX client[^\n]{0,20}|Connecting to JAX distributed service on (?P<role>\S+)",
        WorldSeen,
        anchors=("Connecting to JAX distributed service on",),
    ),
    # arrays over processes
    signature(
        r"implies that (?:array axis \d+ is partitioned|the global size of its dimension \d+ should be divisible by) (?P<parts>\d+)[^\n]{0,120}?(?:dimension size is|it is equal to) (?P<batch>\d+)",
        BatchNotDivisible,
        anchors=("implies that array axis", "implies that the global size of its dimension"),
    ),
    signature(
        r"batch size (?P<batch>\d+) (?:is not|must be) divisible by (?:the )?(?:number of|num) \w*devices:? ?\(?(?P<parts>\d+)?",
        BatchNotDivisible,
        anchors=("divisible by",),
    ),
    signature(
        r"compiling computation that requires (?P<expected>\d+) (?:logical )?(?:devices|replicas), but only (?P<seen>\d+) XLA devices are available",
        WorldSizeConflict,
        what="devices",
    ),
    signature(r"(?P<op>pmap) got inconsistent sizes for array axes to be mapped", ShapeMismatch),
    signature(
        r"(?P<what>assert_equal per-host|[^\n]{0,80}is not equal across processes)[^\n]{0,60}",
        CollectiveMismatch,
        anchors=("assert_equal per-host", "is not equal across processes"),
    ),
    signature(r"(?P<what>sync_global_devices name mismatch[^\n]{0,100})", CollectiveMismatch),
    signature(
        r"(?P<what>Mismatched [^\n]{0,40}across (?:processes|hosts)[^\n]{0,80})",
        CollectiveMismatch,
        anchors=("across processes", "across hosts"),
    ),
    signature(r"(?P<what>[Ff]etching value for `jax\.Array` that spans non-addressable)", UnsupportedCombination),
    signature(r"(?P<what>Multiprocess computations aren't implemented on the \w+ backend)", UnsupportedCombination),
    signature(
        r"(?P<what>Cross-(?:host|process) collectives? (?:is|are) not (?:supported|implemented)[^\n]{0,80})",
        UnsupportedCombination,
        anchors=("Cross-host", "Cross-process"),
    ),
    # fork
    signature(
        r"os\.fork\(\) was called[^\n]{0,120}(?P<what>deadlock)", lambda match: None, anchors=("os.fork() was called",)
    ),
    signature(
        r"(?P<what>JAX[^\n]{0,60}(?:does not support|is not) fork[^\n]{0,80})",
        ForkOrThread,
        anchors=("not support fork", "not fork"),
    ),
)
