# SPDX-License-Identifier: Apache-2.0
"""Horovod: its controller's mismatches, stall inspector, shutdown messages and launcher."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible, CorruptData, ShapeMismatch, UnevenShards
from keepstep.model.facts.environment import LibraryMissing, SymbolMissing, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import (
    AddressMisled,
    ConnectFailed,
    InterfaceMissing,
    PeerLost,
    PortTaken,
    RendezvousTimeout,
    Why,
)
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import Contention
from keepstep.model.facts.sync import CollectiveMismatch, GroupShutDown, RanksMissing
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import by_hand, integers, signature

MOST_RANKS, MOST_OPERATIONS = 10_000, 100
"""How many ranks are considered when working out which is missing: a hostile list may name any rank."""


def _stalled(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The list under the stall warning, as every release words it."""
    waited = re.search(r"for (?:more|longer) than (\d+) seconds", match.string)
    seconds = float(waited[1]) if waited else None
    by_rank: dict[int, list[str]] = {}
    by_op: list[tuple[str, tuple[int, ...]]] = []
    ready: list[tuple[str, tuple[int, ...]]] = []
    for number, line in enumerate([match.string[match.end() :], *_some(lines, 60)]):
        old = re.findall(r"((?<![\w/.:\-])[\w/.:\-]+)? ?\[(missing|ready)\s{1,8}ranks: ([\d, ]+)\]", line)
        if old:
            by_op.extend((name, integers(ranks)) for name, kind, ranks in old if kind == "missing")
            ready.extend((name, integers(ranks)) for name, kind, ranks in old if kind == "ready")
            continue
        new = re.match(r"^\s*(?:\[\d+\]: ?)?(\d+): \[(.*?)\]?\s{0,40}$", line)
        if new:
            by_rank.setdefault(int(new[1]), []).extend(n for n in re.split(r",\s*", new[2]) if n and n != "...")
        elif number > 3 and line.strip() and not re.search(r"(?i)ranks|ops|deadlock|tensors", line):
            break
    known = {rank for _, ranks in ready for rank in ranks}
    world = range(min(max(known, default=-1) + 1, MOST_RANKS))
    by_op.extend((name, tuple(sorted(set(world).difference(ranks)))) for name, ranks in ready[:MOST_OPERATIONS])
    for name, ranks in by_op:
        for rank in ranks:
            by_rank.setdefault(rank, []).append(name)
    if not by_rank:
        if ready:
            yield RanksMissing(missing=(), waited_s=seconds, what="stalled operation", final=False)
        return
    missing = tuple(sorted(by_rank))
    yield RanksMissing(missing=missing, waited_s=seconds, what="stalled operation", final=False)
    first, *others = missing
    for other in others:
        if by_rank[first] and by_rank[other] and not set(by_rank[first]) & set(by_rank[other]):
            yield CollectiveMismatch(
                what="ranks submitted different tensors",
                left=f"rank {other} submitted {by_rank[first][0]}",
                right=f"rank {first} submitted {by_rank[other][0]}",
                other_rank=other,
            )
            return


def _some(lines: Iterator[str], most: int) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number >= most:
            return
        yield line


def _first_exit(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    rank: int | None = None
    code: int | None = None
    for line in _some(lines, 8):
        name = re.search(r"Process name: (\d+)\s*$", line)
        status = re.search(r"Exit code:\s+(-?\d+)", line)
        rank = int(name[1]) if name else rank
        if status:
            code = int(status[1])
            break
    if rank is not None or code is not None:
        yield ProcessExited(reporter="horovodrun", rank=rank, code=code, first=True)


def _offered(match: re.Match[str]) -> Fact:
    """The addresses that a service announced, none of which answered."""
    there = re.findall(r"'([\w.\-]+)': \[\('([\d.]+)'", match["addresses"])
    told = ", ".join(f"{name} {address}" for name, address in there if name != "lo")
    return AddressMisled(address=told or None, how="none of them answered")


def _world(match: re.Match[str]) -> Fact:
    pid = re.search(r"\bpid[ :=]{1,2}(\d+)", match.string)
    rank = int(match["rank"])
    return WorldSeen(size=int(match["size"]), index=rank, rank=rank, pid=int(pid[1]) if pid else None)


_ONE = r"One (?:or more )?ranks? (?:had|sent|did|specified|submitted|requested)(?: an?)?"

SIGNATURES = (
    signature(
        rf"Mismatched (?P<what>[\w/ ]{{3,50}}?): {_ONE} (?P<left>[^\n]{{1,120}}?), but another rank (?:had|"
        rf"sent|did|"
        r"specified|submitted|requested)(?: an?)? (?P<right>[^\n.]{1,120})",
        CollectiveMismatch,
    ),
    signature(
        r"Mismatched (?P<what>allreduce|allgather|broadcast|alltoall|reducescatter|MPI|collective) ", CollectiveMismatch
    ),
    signature(
        r"Requested to allreduce, allgather, or broadcast a tensor with the same name as another tensor",
        CollectiveMismatch,
        what="two operations under one tensor name",
    ),
    signature(
        r"(?:horovod/common/(?:operations|stall_inspector)\.cc:\d+\] |^)\S{3,300} \[missing ranks: (?P<ranks>[\d, ]+)\]",
        lambda match: RanksMissing(missing=integers(match["ranks"]), what="stalled operation", final=False),
    ),
    signature(
        r"Duplicate tensor name (?P<left>\S{1,200})[;:,.] ?[^\n]{0,20}If you want to request another tensor",
        CollectiveMismatch,
        what="two operations under one tensor name",
    ),
    signature(r"Mismatched (?P<what>prescale and/or postscale factors)", CollectiveMismatch),
    signature(r"(?P<how>Horovod has been shut down)", GroupShutDown),
    signature(r"(?P<how>HorovodInternalError)", GroupShutDown),
    signature(r"(?P<how>Horovod background loop uncaught exception)", GroupShutDown),
    signature(
        r"(?P<how>[Rr]eset count \d+ has exceeded limit|number of resets during elastic job exceeded limit)",
        GroupShutDown,
    ),
    signature(
        r"HorovodInternalError: [^\n]{0,160}gloo[^\n]{0,120}(?P<how>Connection (?:closed|reset) by peer)\s*$", PeerLost
    ),
    signature(r"Unable to find a set of common task-to-task communication interfaces", InterfaceMissing),
    signature(
        r"ssh not successful for host (?P<peer>[\w.\-]+)|Unable to ssh on one or more hosts|could not (?:be )?ssh[^\n]{0,40}hosts?",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"Timed out waiting for (?P<where>(?!Spark)[\w\- ]{4,80})\. Please check connectivity between servers",
        RendezvousTimeout,
    ),
    signature(
        r"Timed out waiting for [^\n]{4,120}?\. Please check that you have enough resources",
        Contention,
        what="the cluster had no room for all processes",
    ),
    signature(
        r"was unable to connect to (?:horovod|Horovod)?[^\n]{0,60}on any of the following addresses: (?P<addresses>[^\n]{0,1000})",
        _offered,
    ),
    signature(
        r"No available network interface found matching user provided interface: (?P<name>\S+)|Cannot find an "
        r"IPv4 address of the common interface|No interface is found for address 127\.0\.0\.1",
        InterfaceMissing,
    ),
    signature(
        r"(?:Read data from|Put data input) KVStore server failed|HTTP GET request failed too many times, aborting",
        ConnectFailed,
        why=Why.FAILED,
        peer="the launcher's key-value store",
    ),
    signature(r"could not connect to some hosts via ssh", ConnectFailed, why=Why.FAILED),
    signature(r"(?:Error|Exception): (?:[^\n]{0,20})Unable to find a port to bind to", PortTaken),
    signature(
        r"Security error: digest did not match the message",
        VersionConflict,
        component="Horovod's secret key or its message format",
    ),
    signature(r"MPI_\w+ (?P<how>failed, see MPI output for details)", GroupShutDown),
    signature(r"(?:what\(\): +|Error: ?)(?P<how>HTTP request failed\.)\s*$", GroupShutDown),
    # The build
    signature(
        r"HorovodVersionMismatchError: Framework (?P<name>\w+) installed with version (?P<built>\S+) but found version (?P<found>[\w.+]+)",
        lambda m: SymbolMissing(
            library=f"Horovod, built for {m['name']} {m['built']} (found {m['found'].rstrip('.')})"
        ),
    ),
    signature(
        r"Extension (?P<name>horovod\.\w+) has not been built|(?:MPI|Gloo) support (?:has not been built|is required to use "
        r"elastic training, but has not been built)|Neither MPI nor Gloo support has been built|Horovod has not been built "
        r"with (?:MPI|Gloo) support|Horovod MPI is not enabled",
        LibraryMissing,
    ),
    signature(
        r"horovod(?:run convenience script)? (?:does not find (?:an installed (?:OpenMPI|Open MPI|MPI)|the (?P<jsrun>jsrun) command)|"
        r"currently only supports Open MPI)",
        lambda m: LibraryMissing(name=m["jsrun"] or "an MPI that horovodrun knows"),
    ),
    signature(
        r"(?P<detail>Different slots in -hosts parameter are not supported in Intel\(R\) MPI)", ClusterSpecInvalid
    ),
    signature(
        r"(?P<what>(?:Allgather|Alltoall|Broadcast|Reducescatter) is not supported with Join|Running (?:GPU )?Adasum "
        r"(?:with non-power of 2|on heterogeneous)[^\n]{0,40}|Adasum (?:reduction )?does not (?:currently )?support "
        r"[^\n]{0,60}|op == Adasum is not supported[^\n]{0,30}|gradient_predivide_factor not supported[^\n]{0,30}|"
        r"backward_passes_per_step > 1 is not (?:yet )?supported[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(
        r"horovod(?:run)? does not find an installed MPI|Open MPI/Spectrum MPI/MPICH not found in output of mpirun|"
        r"Unknown MPI implementation given in output of mpirun|mpicxx -show failed \(see error below\), is MPI in \$PATH|Illegal "
        r"host hash provided\. Are you using Open MPI",
        lambda match: LibraryMissing(name="MPI, in a version that Horovod knows"),
    ),
    signature(
        r"None of TensorFlow, (?:Keras, )?PyTorch,? (?:or|and) MXNet plugins were built",
        LibraryMissing,
        name="a framework plugin of Horovod",
    ),
    signature(
        r"(?P<what>No (?:Allreduce|Allgather|Broadcast|Alltoall|Reducescatter|Adasum) operation enabled)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>In-place broadcasts are only supported with TensorFlow [\d.]+ or later|Skipping synchronization is not "
        r"supported when using Adasum optimizer|SyncBatchNormalization does not support fused=True|Only Sum and Average ops are "
        r"supported with tf\.IndexedSlices|(?:DDL|Intel MPI and MPICH) do(?:es)? not support (?:more than one GPU|multiple "
        r"interfaces)[^\n]{0,40}|Different slots in -hosts parameter are not supported[^\n]{0,40}|Unsupported (?:CPU operation|"
        r"controller) type, only MPI[^\n]{0,40}|cannot broadcast torch\.optim\.LBFGS state|`apply_gradients\(\)` was called "
        r"without a call to `(?:get_gradients|_aggregate_gradients)[^\n]{0,40})",
        UnsupportedCombination,
    ),
    # Hosts and slots
    signature(
        r"(?P<detail>Cannot run in fault tolerance mode with fewer than \d+ hosts|One of --host-discovery-script, --hosts, or "
        r"--hostnames must be provided|All ranks don't have same device type|Core ID value is invalid in HOROVOD_\w+)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<how>No hosts from previous set remaining), unable to broadcast state", PeerLost),
    signature(
        r"Requested more processes \((?P<expected>\d+)\) than there are available slots \((?P<seen>\d+)\)|Not enough slots on "
        r"the hosts to fulfill the (?:\d+ )?(?:slots )?requested|Process number should not be larger than total available slots",
        WorldSizeConflict,
        what="processes and slots",
    ),
    signature(r"(?P<detail>Invalid host input, [^\n]{0,100})", ClusterSpecInvalid),
    signature(r"Could not determine process rank and size: only one of (?P<name>\w+)", RankVariableMissing),
    signature(r"(?P<detail>No (?:data|rows) found in \w+ dataset)", UnevenShards),
    signature(r"(?P<what>Found \d+ bytes in \d+ rows; \w+ dataset may be corrupted)", CorruptData),
    signature(
        r"(?i:horovod (?:is |was )?initiali[sz]ed|hvd\.(?:rank|size)\(\)|horovod (?:rank|size))[^\n]{0,120}?"
        r"\b(?:hvd\.)?rank(?:\(\))?[ :=]{1,3}(?P<rank>\d+) ?(?:/|of|,|and|) ?(?:world[_ ]?|hvd\.)?size(?:\(\))?[ :=]{1,3}(?P<size>\d+)",
        _world,
        anchors=by_hand(
            "rank= is on many lines",
            "orovod initiali",
            "orovod is initiali",
            "orovod was initiali",
            "hvd.size()",
            "orovod rank",
            "orovod size",
        ),
    ),
    signature(
        r"Number of node actors \((?P<seen>\d+)\) must match num_hosts \((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="actors and hosts",
    ),
    signature(r"(?P<detail>Failed to execute discovery script: [^\n]{1,120})", ClusterSpecInvalid),
    signature(r"horovod does not find the (?P<name>jsrun|mpirun) command", LibraryMissing),
    signature(
        r"(?P<what>Different ranks tried to set up mismatching numbers of process sets"
        r"|Attempted to register process set with mismatching values on different ranks)",
        CollectiveMismatch,
    ),
    signature(
        r"(?:Tried to register process set with invalid rank: |received invalid root rank )(?P<seen>-?\d+)",
        WorldSizeConflict,
        what="a rank of a process set",
    ),
    signature(
        r"Number of entries in splits does not equal number of workers", WorldSizeConflict, what="splits and workers"
    ),
    signature(
        r"splits not provided, but first dimension of tensor is not an even multiple of the number of workers",
        BatchNotDivisible,
    ),
    signature(r"Sum of splits entries is greater than the first dimension of tensor", ShapeMismatch, op="alltoall"),
    signature(
        r"(?P<detail>Expected \d+ core ids but got \d+\. HOROVOD_THREAD_AFFINITY=|Core ID (?:value is invalid|cannot be less than zero)[^\n]{0,20} in HOROVOD_THREAD_AFFINITY)",
        ClusterSpecInvalid,
    ),
    signature(r"Error: (?P<detail>Validation DataFrame is empty)", UnevenShards),
)

BLOCKS = (
    block(r"One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks", _stalled),
    # the list where a log shows it without the warning above it
    block(r"^Stalled ops: ?(?=\S+ \[(?:ready|missing) ranks: )", _stalled),
    block(r"One or more rank \(marked by \"X\"\) is stalled", _stalled),
    block(r"Horovod detected that one or more processes exited with non-zero status", _first_exit),
)
