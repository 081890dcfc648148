# SPDX-License-Identifier: Apache-2.0
"""Which rank failed first: the launcher's answer, the rank that failed near the cause, or the one the others miss."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.process import (
    ExceptionRaised,
    FatalSignal,
    NativeAbort,
    ProcessExited,
    TaskNamed,
    TracebackCut,
)
from keepstep.model.facts.rank_places import RanksOnHost
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.facts.sync import CollectiveTimeout, CommMember, RanksMissing
from keepstep.model.facts.training import StreamEnded
from keepstep.model.finding import Finding, Standing, ranks_of
from keepstep.model.identity import everyone
from keepstep.story.rank_endings import SUPERVISOR
from keepstep.story.who_is_who import rank_of_exit, several_nodes

CLEARLY_EARLIER_S = 2.0
"""Host clocks differ and lines are buffered: a smaller difference means nothing."""
CLEARLY_EARLIER_HERE_S = 0.5
"""On one host."""
NEXT_LINES = 60
LINES_OF_A_MESSAGE = 8
FEW = 2
"""With more ranks than this, all suffered the cause and none is singled out."""
_DEVICE = lazy_pattern(r"\b(?:GPU|NPU|cuda:|npu:|XPU|HPU) ?(\d+)\b")
_OF_A_GROUP = lazy_pattern(
    r"torch[/\\]nn[/\\]parallel[/\\]distributed|deepspeed|fsdp|torch[/\\]distributed|horovod|megatron"
    r"|llamafactory[/\\]launcher\.py",
    re.I,
)


def first_rank(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """The rank, or the few ranks, that a root cause hit first; empty if unknown."""
    return _narrowed(seen, root) if root.ranks else _whose(seen, root)


def _narrowed(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """The ranks that a rule named, narrowed by the launcher: of many that printed the same, only the first to fail.

    If the launcher names a rank that shows nothing else, the log holds only part of the output: then both, unless that
    one ended later: Ray ends the workers that are left.
    """
    if _is_felt(root):
        return root.ranks
    first = first_to_fail(seen)
    if first is None:
        earliest = _clearly_earliest(seen, root)
        return earliest if len(earliest) == 1 else _first_in_log(seen, root)
    if first in root.ranks:
        return (first,) if len(root.ranks) > FEW else root.ranks
    shown = any(e.who == first for e in _ends(seen)) or _ended_later(seen, root)
    return (*root.ranks, first) if len(root.ranks) == 1 and not shown else root.ranks


def _ended_later(seen: EvidenceSet, root: Finding) -> bool:
    """Whether what the supervisor calls the first end came after the root cause. It writes down ends when it sees them,
    so on one host a small difference says enough."""
    ends = [e.at - e.within_s for e in first_exits(seen) if e.fact.reporter == SUPERVISOR and e.at is not None]
    struck = [e.at + e.within_s for e in root.evidence if e.who is not None and e.at is not None]
    margin = CLEARLY_EARLIER_S if several_nodes(seen) else CLEARLY_EARLIER_HERE_S
    return bool(ends and struck) and min(struck) + margin < min(ends)


def _clearly_earliest(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """Of several ranks with the same failure, the one that failed clearly before all others, by their clocks.

    A rank that had written nothing yet by then did not fail because of it: it started later, or its clock differs.
    """
    struck: dict[int, tuple[float, float]] = {}
    for each in root.evidence:
        if each.who is not None and each.at is not None:
            soonest, latest = each.at - each.within_s, each.at + each.within_s
            before = struck.get(each.who, (soonest, latest))
            struck[each.who] = min(soonest, before[0]), min(latest, before[1])
    if len(struck) < FEW or set(struck) != set(root.ranks):
        return root.ranks
    rank, (_, latest) = min(struck.items(), key=lambda item: item[1][1])
    others = min(soonest for other, (soonest, _) in struck.items() if other != rank)
    if latest + CLEARLY_EARLIER_S >= others:
        return root.ranks
    alive = {e.rank.index for e in seen.items if e.rank is not None and e.at is not None and e.at <= latest}
    return (rank,) if alive >= set(root.ranks) else root.ranks


def _first_in_log(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """Of several ranks with the same failure in one log, the first one, if the order of lines and the times agree.

    Only if most ranks do not have it: else all of them suffered the cause, in any order.
    """
    own = [e for e in root.evidence if e.who is not None]
    ranks = {e.who for e in own}
    most = max(seen.world_size or 0, max(seen.ranks, default=0) + 1, len(seen.ranks))
    if len(ranks) < FEW or ranks != set(root.ranks) or 2 * len(ranks) >= most:
        return root.ranks
    if len({e.origin.source for e in own}) > 1 or any(e.origin.line is None for e in own):
        return root.ranks
    first = min(own, key=lambda e: e.origin.line or 0)
    times = [e.at for e in own if e.at is not None]
    if times and (first.at is None or first.at > min(times)):
        return root.ranks
    return (first.who,) if first.who is not None else root.ranks


def _is_felt(root: Finding) -> bool:
    """Whether this kind of cause also hits ranks that did not begin it."""
    return root.standing in (Standing.SYMPTOM, Standing.GUESS) or root.cause.family in ("sync", "network", "config")


def first_exits(seen: EvidenceSet) -> list[Evidence[ProcessExited]]:
    """What launchers call the first failure; if each host's launcher names one with a time, the earliest."""
    said = [e for e in seen.all(ProcessExited) if e.fact.first]
    times = [(e.fact.failed_at, e.within_s) for e in said if e.fact.failed_at is not None]
    if len(times) < len(said):
        return said
    soonest = min((at + within for at, within in times), default=0.0)
    return [e for e in said if (e.fact.failed_at or 0.0) - e.within_s <= soonest]


def first_to_fail(seen: EvidenceSet) -> int | None:
    """The rank that a launcher calls the first to fail; among several launchers, the earliest."""
    ranks = {e.fact.rank for e in first_exits(seen) if e.fact.rank is not None} or _by_agents(seen)
    if not ranks:
        ranks = _by_launcher(seen)
    return ranks.pop() if len(ranks) == 1 else None


def _by_agents(seen: EvidenceSet) -> set[int]:
    """Of a run on several hosts: each agent names the first rank to fail on its host; the clearly earliest one."""
    named = {e.who: e.at for e in first_exits(seen) if e.fact.reporter == SUPERVISOR and e.who is not None and e.at}
    if not seen.all(RanksOnHost) or not named:
        return set()
    rank, *others = sorted(named, key=lambda who: named[who])
    return {rank} if all(named[rank] + CLEARLY_EARLIER_S < named[other] for other in others) else set(named)


def _by_launcher(seen: EvidenceSet) -> set[int]:
    """The rank torchrun's agent names when it gives up: it gives the local rank, the table below it the global one.

    Other launchers' local ranks count if only one launcher writes: with several hosts, each has such a local rank.
    """
    exits = seen.all(ProcessExited)
    known: dict[int | None, int] = {e.fact.pid: e.fact.rank for e in exits if e.fact.pid and e.fact.rank is not None}
    named = [e.fact for e in exits if e.fact.rank is None and (e.fact.reporter == "torchrun" or not e.origin.stream)]
    alone = not several_nodes(seen)
    found = {known.get(f.pid, f.local_rank if alone else None) for f in named if f.local_rank is not None}
    return {rank for rank in found if rank is not None}


def _ends(seen: EvidenceSet) -> list[Evidence[Fact]]:
    """What processes printed when they exited by themselves."""
    ends: list[Evidence[Fact]] = [e for e in seen.all(ExceptionRaised) if not e.fact.logged]
    return [*ends, *seen.all(FatalSignal), *seen.all(NativeAbort)]


def _whose(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """The rank of a root cause whose own lines name none.

    Kernels, drivers and native libraries print no rank. Asked in turn: the rank that the launcher calls the first to
    fail; the only one that failed; the one that failed just below the message; the one the others miss.
    A symptom hits the ranks that print it: if a rule names none of them, a rank that failed nearby is not to blame, and
    the launcher's first to fail is only the first that gave up waiting.
    """
    first = first_to_fail(seen)
    said = any(e.fact.first for e in seen.all(ProcessExited))
    if first is not None and said and not (root.standing is Standing.SYMPTOM and first in ranks_of(root.evidence)):
        return (first,)
    if root.standing is Standing.SYMPTOM and (ranks_of(root.evidence) or root.cause.family == "sync"):
        return _missed(seen)
    ends = _ends(seen)
    failed = {e.who for e in ends if e.who is not None}
    failed |= {e.who for e in seen.all(StreamEnded) if e.who is not None and e.fact.last.startswith('File "')}
    failed |= {e.who for e in seen.all(TracebackCut) if e.who is not None and not seen.survived(e)}
    exited = _exited(seen)
    failed |= set(exited)
    if len(failed) == 1:
        return tuple(failed)
    for piece in root.evidence:
        below = [e for e in ends if e.origin.source == piece.origin.source and e.who is not None]
        below = [e for e in below if 0 <= (e.origin.line or 0) - (piece.origin.line or 0) <= NEXT_LINES]
        if below and below[0].who is not None:
            return (below[0].who,)
    named = _named_near(seen, root)
    if named is not None:
        return (named,)
    if first is not None:
        return (first,)
    return (
        _missed(seen)
        or _by_device(seen, root)
        or _only_member(seen, root)
        or _named_as_lost(seen, root)
        or _few(exited)
    )


def _exited(seen: EvidenceSet) -> list[int]:
    """The ranks reported to have ended badly, in order."""
    found: list[int] = []
    for exited in seen.all(ProcessExited):
        who = rank_of_exit(seen, exited)
        if who is not None and (exited.fact.code or exited.fact.signal):
            found.append(who)
    return found


def _few(exited: list[int]) -> tuple[int, ...]:
    """The ranks a launcher names as ended, if they are hardly more than one."""
    ranks = tuple(sorted(set(exited)))
    return ranks if len(ranks) <= FEW else ()


def _named_near(seen: EvidenceSet, root: Finding) -> int | None:
    """The task that a message itself names: below it, else just above it."""
    for before, after in ((0, LINES_OF_A_MESSAGE), (LINES_OF_A_MESSAGE, 0)):
        for piece in root.evidence:
            near = seen.near(piece, TaskNamed, before=before, after=after)
            if near:
                return near[-1 if before else 0].who
    return None


def _named_as_lost(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """For a process killed elsewhere in the text: the one rank named below the loss of a peer."""
    if root.cause not in (Cause.RESOURCE_HOST_OOM_KILLED, Cause.UNKNOWN_NOT_ESTABLISHED):
        return ()
    named = {
        e.who for lost in seen.all(PeerLost) for e in seen.near(lost, TaskNamed, before=0, after=LINES_OF_A_MESSAGE)
    }
    return tuple(who for who in named if who is not None) if len(named) == 1 else ()


def _missed(seen: EvidenceSet) -> tuple[int, ...]:
    """The one rank that the others name as gone, or the only one that did not complain about others."""
    named = {e.fact.peer_rank for e in seen.all(PeerLost) if e.fact.peer_rank is not None}
    awaited = seen.all(RanksMissing)
    ended = {e.fact.ended for e in awaited if e.fact.ended is not None}  # whom a shutdown barrier waits for still works
    named |= ended or {rank for e in awaited for rank in e.fact.missing}
    if len(named) == 1:
        return tuple(named)
    waited: set[int] = set()
    for kind in (CollectiveTimeout, PeerLost):
        waited |= {e.who for e in seen.all(kind) if e.who is not None}
    world = set(everyone(max(seen.world_size or 0, max(waited, default=-1) + 1)))
    silent = world - waited
    return tuple(silent) if len(silent) == 1 and len(waited) >= FEW else ()


def _only_member(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """The rank whose log this is, if no line carries a rank and only one member of the communicator writes in it."""
    if seen.ranks or root.standing is Standing.SYMPTOM:
        return ()
    members = {(e.fact.index, e.fact.size) for e in seen.all(CommMember)}
    sources = {e.origin.source for e in seen.items}
    if len(members) != 1 or len(sources) != 1:
        return ()
    index, size = members.pop()
    return (index,) if size > 1 and seen.world_size in (None, size) else ()


def _by_device(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """If each process has its own device, the number of the device that ran out; device 0 may be any rank's."""
    full = [e.fact.device or "" for e in root.evidence if isinstance(e.fact, DeviceMemoryExhausted)]
    devices = {int(match[1]) for match in map(_DEVICE.search, full) if match}
    if len(devices) != 1 or devices == {0} or several_nodes(seen):
        return ()
    stacks = [e.fact.frames for e in seen.all(ExceptionRaised)] + [e.fact.frames for e in seen.all(TracebackCut)]
    many = (seen.world_size or 1) > 1 or any(
        frame.file and _OF_A_GROUP.search(frame.file) for frames in stacks for frame in frames
    )
    return tuple(devices) if many else ()
