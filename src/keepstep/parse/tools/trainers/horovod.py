# SPDX-License-Identifier: Apache-2.0
"""Horovod: its controller's mismatches, stall inspector, shutdown messages and launcher."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.environment import LibraryMissing, SymbolMissing
from keepstep.model.facts.network import AddressMisled
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import CollectiveMismatch, RanksMissing
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


SIGNATURES = (
    signature(
        r"(?:horovod/common/(?:operations|stall_inspector)\.cc:\d+\] |^)\S{3,300} \[missing ranks: (?P<ranks>[\d, ]+)\]",
        lambda match: RanksMissing(missing=integers(match["ranks"]), what="stalled operation", final=False),
    ),
    signature(
        r"was unable to connect to (?:horovod|Horovod)?[^\n]{0,60}on any of the following addresses: (?P<addresses>[^\n]{0,1000})",
        _offered,
    ),
    # The build
    signature(
        r"HorovodVersionMismatchError: Framework (?P<name>\w+) installed with version (?P<built>\S+) but found version (?P<found>[\w.+]+)",
        lambda m: SymbolMissing(
            library=f"Horovod, built for {m['name']} {m['built']} (found {m['found'].rstrip('.')})"
        ),
    ),
    signature(
        r"horovod(?:run convenience script)? (?:does not find (?:an installed (?:OpenMPI|Open MPI|MPI)|the (?P<jsrun>jsrun) command)|"
        r"currently only supports Open MPI)",
        lambda m: LibraryMissing(name=m["jsrun"] or "an MPI that horovodrun knows"),
    ),
    signature(
        r"horovod(?:run)? does not find an installed MPI|Open MPI/Spectrum MPI/MPICH not found in output of mpirun|"
        r"Unknown MPI implementation given in output of mpirun|mpicxx -show failed \(see error below\), is MPI in \$PATH|Illegal "
        r"host hash provided\. Are you using Open MPI",
        lambda match: LibraryMissing(name="MPI, in a version that Horovod knows"),
    ),
    # Hosts and slots
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
)

BLOCKS = (
    block(r"One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks", _stalled),
    # the list where a log shows it without the warning above it
    block(r"^Stalled ops: ?(?=\S+ \[(?:ready|missing) ranks: )", _stalled),
    block(r"One or more rank \(marked by \"X\"\) is stalled", _stalled),
    block(r"Horovod detected that one or more processes exited with non-zero status", _first_exit),
)
