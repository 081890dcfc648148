# SPDX-License-Identifier: Apache-2.0
"""Open MPI's help texts: the boxed paragraphs that say what it could not do, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import (
    AddressMisled,
    BindFailed,
    ConnectFailed,
    InterfaceMissing,
    NameUnresolved,
    PeerLost,
    RdmaTrouble,
    Why,
)
from keepstep.model.facts.resource import LimitReached, OomKilled
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # Hosts, slots and files of the launcher
    signature(
        r"(?P<detail>At least one of the requested hosts is not included in the current allocation|A hostfile was provided that contains"
        r" at least one node not present in the allocation|Open RTE was unable to open the hostfile|Open RTE detected a (?:parse error"
        r"|bad parameter) in the hostfile)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>There are no available nodes allocated to this job|No nodes are available for this job, either due to a failure to"
        r"|didn't find any hosts in the map for this application|Your job failed to map\. Either no mapper was available)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Either the -host or -hostfile options were given, but the number of processes to start was omitted|a node was"
        r" detected to be missing a daemon|A daemon has no recorded node)",
        ClusterSpecInvalid,
    ),
    signature(
        r"A request was made to bind to that would result in binding more processes than cpus|Your job has requested more cpus per"
        r" process\(rank\) than there are cpus",
        WorldSizeConflict,
        what="processes and the cores that mpirun may use",
    ),
    signature(
        r"(?P<detail>unable to setup a rendezvous file due to your system's restriction for Unix's socket's path-length|The call to"
        r" pmix_init_server\(\) failed\. This may be due to your system's restriction)",
        ClusterSpecInvalid,
    ),
    # Parts of Open MPI that are missing, or not the same everywhere
    signature(r"was not able to find the executable \"orted\" in your PATH", LibraryMissing, name="orted"),
    signature(r"unable to locate a usable \"srun\" command", LibraryMissing, name="srun"),
    signature(
        r"We were unable to find any usable plugins for the (?P<framework>\w{2,20}) framework",
        lambda m: LibraryMissing(name=f"PMIx's {m['framework']} plugins"),
    ),
    signature(
        r"No components were able to be opened in the (?P<framework>\w{2,20}) framework",
        lambda m: LibraryMissing(name=f"a component of Open MPI's {m['framework']} framework"),
    ),
    signature(
        r"An unexpected version of PMIx was loaded|A version of PMIx was detected that is too old|conflicting directives regarding the"
        r" location of OPAL vs PMIx|and require a minimum level of PMIx v",
        VersionConflict,
        component="PMIx",
    ),
    signature(r"does not currently support multi-endian operations", VersionConflict, component="CPU architecture"),
    signature(
        r"The application appears to have been direct launched using \"aprun\",? but OMPI was not built",
        UnsupportedCombination,
        what="Open MPI without ALPS support, started by aprun",
    ),
    signature(
        r"the connection was refused due to a failure to authenticate",
        VersionConflict,
        component="the Open MPI that two hosts use to authenticate",
    ),
    # Limits
    signature(
        r"system limit exceeded on number of (?P<limit>pipes|processes|network connections|files|threads)", LimitReached
    ),
    # The network of TCP
    signature(
        r"Open MPI detected an inbound MPI TCP connection request from a peer",
        AddressMisled,
        how="it connected from an address that is not listed",
    ),
    signature(
        r"Open MPI accepted a TCP connection from what appears to be a another Open MPI process but cannot find a",
        AddressMisled,
        how="another process connected from it",
    ),
    signature(
        r"The specified list of networks to be excluded for TCP out-of-band communications resulted in no networks being"
        r"|The specified network is not parseable",
        InterfaceMissing,
    ),
    signature(r"No sockets were able to be opened on the available protocols", BindFailed),
    signature(r"A critical communication path was lost to:", PeerLost, how="its connection to the launcher broke"),
    signature(
        r"failed to receive scheduled heartbeat communications from a remote process",
        PeerLost,
        how="heartbeats stopped",
    ),
    signature(
        r"ORTE does not know how to route a message to the specified daemon", ConnectFailed, why=Why.FAILED, final=False
    ),
    signature(
        r"gethostbyname failed, (?P<host>[\w.\-]{1,80}) \(errno|unable to get host address for (?P<host2>[\w.\-]{1,80})(?: \(|\s*$)",
        lambda m: NameUnresolved(host=m["host"] or m["host2"]),
    ),
    # InfiniBand and libfabric
    signature(
        r"pml_ucx\.c:\d+ +Error: (?P<what>[A-Za-z][^\n]{5,100})",
        lambda m: RdmaTrouble(what=f"UCX in Open MPI: {m['what'].strip()}"),
    ),
    signature(r"(?P<what>The InfiniBand retry count between two MPI processes has been exceeded)", RdmaTrouble),
    signature(r"(?P<what>The OpenFabrics \"receiver not ready\" retry count on a)", RdmaTrouble),
    signature(
        r"(?P<what>The RDMA CM returned (?:an event error while attempting to make a connection|that the device Open MPI was trying to use"
        r" has been removed))",
        RdmaTrouble,
    ),
    signature(r"(?P<what>Open MPI failed an OFI Libfabric library call \(\w{1,40}\))", RdmaTrouble),
    signature(r"(?P<what>The OFI MTL was not able to find endpoint information for a remote endpoint)", RdmaTrouble),
    signature(
        r"(?P<what>The OpenFabrics \(openib\) BTL failed to initialize while trying to create an internal queue|A process failed to create"
        r" a queue pair)",
        RdmaTrouble,
    ),
    # a memory limit, a different build, a missing route
    signature(r"A process has exceeded the specified limit on memory usage", OomKilled, by="Open MPI's memory sensor"),
    signature(
        r"A compressed message was received by the Open MPI run time system \(PMIx\) that could not be decompressed",
        VersionConflict,
        component="PMIx (built with compression on one host only)",
    ),
    signature(
        r"(?:ORTE|PRTE) does not know how to route a message to the specified daemon",
        ConnectFailed,
        why=Why.UNREACHABLE,
    ),
    signature(r"(?P<detail>could not change to the\s+specified working directory)", ClusterSpecInvalid),
    signature(r"Detected mismatched split_type and/or info", CollectiveMismatch, what="MPI_Comm_split_type"),
    signature(
        r"mpirun command (?:was unable to find an|could not execute the) underlying prterun command",
        LibraryMissing,
        name="prterun",
    ),
    signature(
        r"(?P<what>The user requested CUDA support with the --mca mpi_cuda_support 1"
        r"|The OSC pt2pt component does not support MPI_THREAD_MULTIPLE|User specified an accelerator component via)",
        UnsupportedCombination,
    ),
    # cards under other names than openib
    signature(
        r"(?P<what>MXM was unable to (?:create an endpoint|read settings for endpoint)|Initialization of MXM library failed"
        r"|attempting to make network progress \(mxm_progress\)|Number of local ranks exceed the number of available OFI contexts"
        r"|Failed to (?:create a (?:completion queue \(CQ\)|queue pair \(QP\))|register memory region \(MR\)|post a list of work requests \(WRs\)))",
        RdmaTrouble,
    ),
)


def _component(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``Framework: btl``, ``Component: ofi`` below the text: what was requested and is missing."""
    framework: str | None = None
    for _, line in zip(range(12), lines, strict=False):
        if found := re.search(r"Framework: +(\w+)", line):
            framework = found[1]
        elif found := re.search(r"Component: +(\S+)", line):
            yield LibraryMissing(name=f"Open MPI's component {framework or ''}/{found[1]}")
            return


BLOCKS = (block(r"A requested component was not found, or was unable to be opened", _component),)
