# SPDX-License-Identifier: Apache-2.0
"""Horovod: its controller's mismatches, stall inspector, shutdown messages and launcher."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.network import ConnectFailed, InterfaceMissing, RendezvousTimeout, Why
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.sync import CollectiveMismatch, GroupShutDown, RanksMissing
from keepstep.parse.block import block
from keepstep.parse.signature import integers, signature


def _stalled(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The list under the stall warning, in the words of every release."""
    waited = re.search(r"for (?:more|longer) than (\d+) seconds", match.string)
    seconds = float(waited[1]) if waited else None
    by_rank: dict[int, list[str]] = {}
    by_op: list[tuple[str, tuple[int, ...]]] = []
    ready: list[tuple[str, tuple[int, ...]]] = []
    for number, line in enumerate([match.string[match.end() :], *_some(lines, 60)]):
        old = re.findall(r"([\w/.:\-]+)? ?\[(missing|ready)\s+ranks: ([\d, ]+)\]", line)
        if old:
            by_op.extend((name, integers(ranks)) for name, kind, ranks in old if kind == "missing")
            ready.extend((name, integers(ranks)) for name, kind, ranks in old if kind == "ready")
            continue
        new = re.match(r"^\s*(?:\[\d+\]: ?)?(\d+): \[(.*?)\]?\s*$", line)
        if new:
            by_rank.setdefault(int(new[1]), []).extend(
                n for n in re.split(r",\s*", new[2]) if n and n != "..."
            )
        elif number > 3 and line.strip() and not re.search(r"(?i)ranks|ops|deadlock|tensors", line):
            break
    known = {rank for _, ranks in ready for rank in ranks}
    everyone = range(max(known, default=-1) + 1)
    by_op.extend((name, tuple(n for n in everyone if n not in ranks)) for name, ranks in ready)
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


_ONE = r"One (?:or more )?ranks? (?:had|sent|did|specified|submitted|requested)(?: an?)?"

SIGNATURES = (
    signature(
        rf"Mismatched (?P<what>[\w/ ]{{3,50}}?): {_ONE} (?P<left>[^\n]{{1,120}}?), but another rank (?:had|"
        rf"sent|did|"
        r"specified|submitted|requested)(?: an?)? (?P<right>[^\n.]{1,120})",
        CollectiveMismatch,
        anchors=("Mismatched ",),
    ),
    signature(
        r"Mismatched (?P<what>allreduce|allgather|broadcast|alltoall|reducescatter|MPI|collective) ",
        CollectiveMismatch,
        anchors=(
            "Mismatched allreduce",
            "Mismatched allgather",
            "Mismatched broadcast",
            "Mismatched alltoall",
            "Mismatched reducescatter",
            "Mismatched MPI",
            "Mismatched collective",
        ),
    ),
    signature(r"(?P<how>Horovod has been shut down)", GroupShutDown),
    signature(r"(?P<how>HorovodInternalError)", GroupShutDown),
    signature(r"Unable to find a set of common task-to-task communication interfaces", InterfaceMissing),
    signature(
        r"No matching interfaces? found|Could not find (?:any )?NICs?|no common (?:network )?interfaces? "
        r"(?:was |were )?found",
        InterfaceMissing,
    ),
    signature(
        r"ssh not successful for host (?P<peer>[\w.\-]+)|Unable to ssh on one or more hosts|could not (?:be "
        r")?ssh"
        r"[^\n]{0,40}hosts?",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"Timed out waiting for (?P<where>tasks? to start|the processes to start|Horovod processes|hosts? to "
        r"become available)",
        RendezvousTimeout,
    ),
    signature(
        r"horovodrun[^\n]{0,60}(?:more processes|exceeds?)[^\n]{0,40}(?:slots|hosts)",
        WorldSizeConflict,
        what="processes and slots",
    ),
)

BLOCKS = (
    block(
        r"One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks",
        _stalled,
    ),
    block(r"One or more rank \(marked by \"X\"\) is stalled", _stalled),
    block(r"Horovod detected that one or more processes exited with non-zero status", _first_exit),
)
