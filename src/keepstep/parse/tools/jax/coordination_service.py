# SPDX-License-Identifier: Apache-2.0
"""The coordination service that TensorFlow and JAX share: heartbeats, incarnations, barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import PeerAwaited, PeerLost, RendezvousTimeout
from keepstep.model.facts.platform import MemberRestarted
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_TASK = lazy_pattern(r"/job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)")
_BARRIER = lazy_pattern(r"(?:Barrier_id|Id): (?P<id>[^\s,]+?)\.?(?:[\s,]|$)")
_AT_START = lazy_pattern(r"(?i)connect|wait_?for_?all_?tasks|\[?init|register|global_topology|exchange")
_AT_END = lazy_pattern(r"(?i)shutdown")


def _member(text: str) -> tuple[str | None, int | None]:
    match = _TASK.search(text)
    if match is None:
        return None, None
    return match[0], int(match["index"]) if match["job"] in ("worker", "jax_worker", "tpu_worker") else None


def _indices(text: str) -> tuple[int, ...]:
    """The tasks listed under a barrier's time-out: names, or bare numbers in newer releases."""
    named = [int(m["index"]) for m in _TASK.finditer(text)]
    return tuple(dict.fromkeys(named or [int(n) for n in re.findall(r"(?m)^\s*(\d{1,6})\s*$", text)]))


def _restarted(match: re.Match[str]) -> Fact:
    """The task that came back: a name before the message, or a bare number in newer releases."""
    before = match.string[max(0, match.start() - 120) : match.start()]
    named = list(_TASK.finditer(before))
    if named:
        member, rank = _member(named[-1][0])
        return MemberRestarted(member=member, rank=rank)
    number = re.search(r"(?:^|[\s:])(\d{1,6})\s*$", before)
    if number:
        return MemberRestarted(member=f"task {number[1]}", rank=int(number[1]))
    member, rank = _member(match.string[match.start() : match.end() + 200])
    return MemberRestarted(member=member, rank=rank)


def _silent(match: re.Match[str]) -> Fact:
    member, rank = _member(match["task"])
    return PeerLost(how="heartbeats stopped", peer=member, peer_rank=rank)


def _late(match: re.Match[str]) -> Fact | None:
    """A barrier that timed out: at the start a rendezvous, later a missing rank."""
    groups = match.groupdict()
    said = None if groups.get("id") else _BARRIER.search(match.string)
    name = groups.get("id") or (said["id"] if said else "")
    reached, total = groups.get("reached"), groups.get("total")
    ranks = _indices(groups.get("tasks") or "")
    if _AT_START.search(name) and not _AT_END.search(name):
        return RendezvousTimeout(
            joined=int(reached) if reached else None,
            expected=int(total) if total else None,
            where=name or None,
            missing=ranks,
        )
    return RanksMissing(missing=ranks, what=f"barrier {name}".strip()) if ranks else None


def _late_block(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    text = match.string
    for number, line in enumerate(lines):
        bare = line.strip()
        if number > 40 or not (_TASK.search(line) or "barrier" in line or not bare or bare.isdecimal()):
            break
        text += "\n" + line
    name = _BARRIER.search(text)
    count = re.search(r"reached the barrier: (\d+)/(\d+)", text)
    late = text[m.end() :] if (m := re.search(r"[Tt]imed out task names", text)) else ""
    ranks = _indices(late)
    what = name["id"] if name else ""
    if _AT_START.search(what) and not _AT_END.search(what):
        yield RendezvousTimeout(
            joined=int(count[1]) if count else None,
            expected=int(count[2]) if count else None,
            where=what,
            missing=ranks,
        )
    elif ranks:
        first = re.search(r"first task at the barrier: ?(?:\S*/task:)?(\d{1,6})\b", text)
        is_alone = first is not None and count is not None and int(count[1]) == 1 and _AT_END.search(what)
        ended = int(first[1]) if first is not None and is_alone else None
        yield RanksMissing(missing=ranks, what=f"barrier {what}".strip(), ended=ended)


def _names_block(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The list of tasks alone, where the message about the barrier differs or was cut off."""
    if "Barrier timed out" in match.string or "The first task at" in match.string:
        return
    text = match.string[match.end() :]
    for number, line in enumerate(lines):
        if number > 200 or not (_TASK.search(line) or re.fullmatch(r"\s*\d{1,6}\s*", line)):
            break
        text += "\n" + line
    name = re.search(r"(?:[Bb]arrier(?:_id|:| Id)?:? )(?P<id>[\w:/\-\[\]]{3,200})", match.string)
    what = name["id"] if name else ""
    ranks = _indices(text)
    if ranks and _AT_START.search(what) and not _AT_END.search(what):
        yield RendezvousTimeout(where=what, missing=ranks)
    elif ranks:
        yield RanksMissing(missing=ranks, what=f"barrier {what}".strip())


def _unhealthy_block(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    found = list(_TASK.finditer(match.string, match.end()))
    numbers: list[int] = []
    for number, line in enumerate(lines):
        if re.fullmatch(r"\s*\d{1,6}\s*", line):
            numbers.append(int(line))
        elif number > 200 or not _TASK.search(line):
            break
        found.extend(_TASK.finditer(line))
    for task in found:
        member, rank = _member(task[0])
        yield PeerLost(how="heartbeats stopped", peer=member, peer_rank=rank)
    for rank in numbers:
        yield PeerLost(how="heartbeats stopped", peer=f"process {rank}", peer_rank=rank)


def _unanswered_block(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A heartbeat that the service did not answer in time; the call's name comes two lines later."""
    for _, line in zip(range(4), lines, strict=False):
        if re.search(r"RPC: /\S*CoordinationService/Heartbeat", line):
            yield PeerLost(how="heartbeats got no answer", peer="the coordination leader", peer_rank=0)
            return


SIGNATURES = (
    signature(r"unexpectedly tried to connect with a different incarnation", _restarted),
    signature(r"Heartbeat: Incarnation ID mismatch", _restarted),
    signature(r"The task has restarted and likely crashed earlier", _restarted),
    signature(r"(?P<task>/job:\w+/replica:\d+/task:\d+) heartbeat timeout", _silent),
    signature(r"unhealthy \(stopped sending heartbeats\):\s*\n?\s*(?P<task>/job:\w+/replica:\d+/task:\d+)", _silent),
    # inside an exception only the first of the list can be read
    signature(
        r"[Tt]imed out task names:\s*\n?\s*(?P<tasks>/job:\w+/replica:\d+/task:\d+[^\n]{0,2000}|\d{1,6}(?=\s|$))", _late
    ),
    signature(
        r"Barrier timed out\. (?:Barrier_id|Id): (?P<id>[^\s,]*(?i:connect|wait_for_all_tasks|topology)[^\s,]*?)\.?"
        r"(?=[\s,])[^\n]{0,400}?(?:reached the barrier: (?P<reached>\d+)/(?P<total>\d+)|\n|$)",
        _late,
    ),
    signature(
        r"Waiting for (?P<missing>[1-9]\d*)/(?P<expected>\d+) tasks to connect",
        lambda match: PeerAwaited(peer=f"{match['missing']} of {match['expected']} tasks"),
    ),
)

BLOCKS = (
    block(r"Barrier timed out\.", _late_block),
    block(r"[Tt]imed out task names:?", _names_block),
    block(r"tasks are unhealthy \(stopped sending heartbeats\)", _unhealthy_block),
    block(r"DEADLINE_EXCEEDED: Deadline Exceeded", _unanswered_block),
)
