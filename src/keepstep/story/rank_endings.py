# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a run ended, by their goodbyes and their launcher. "Healthy" needs an answer from every rank."""

from __future__ import annotations

from dataclasses import dataclass

from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import PeersWait, RankDoing, RankEnded, RankStopped, WorldFormed
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.process import ExceptionRaised, ProcessExited, StartedWith, TerminationRequested
from keepstep.model.facts.rank_places import RanksOnHost
from keepstep.model.facts.sync import NoProgress
from keepstep.model.identity import everyone

SUPERVISOR = "keepstep run"
INTERRUPTED = "KeyboardInterrupt"
_STEPPING = ("input", "compute")
STOOD_STILL_S, STOOD_STILL_STEPS = 8.0, 20
"""A job whose ranks made no progress for this long, and this many usual steps, before its end had stopped."""
BOX_S = 2.0
"""The precision of times from black boxes: a live rank writes to its box once per second."""
SEVERAL = 2
"""One rank's good end says nothing about the others."""
_SENT_BY_DESIGN = (None, "SIGTERM", "SIGKILL", "SIGINT")
_LEFT_BY_DESIGN = {"Ray worker": 1}
"""The exit status of a process that was asked to end."""


@dataclass(frozen=True)
class Ends:
    """The ranks that ended, by rank (None: a process that was no rank)."""

    world: int | None
    well: dict[int | None, Evidence[RankEnded]]
    """They exited with status 0, or are ended by others by design."""
    badly: dict[int | None, Evidence[RankEnded]]
    """They exited with another status or an exception."""
    interrupted: dict[int | None, Evidence[RankEnded]]
    """By Ctrl-C."""
    silent: dict[int | None, Evidence[RankEnded]]
    """Their black boxes end without a goodbye."""
    living: frozenset[int | None]

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the world that left no trace."""
        known = {*self.well, *self.badly, *self.interrupted, *self.silent, *self.living}
        return tuple(rank for rank in everyone(self.world or 0) if rank not in known) if known - {None} else ()

    @property
    def all_well(self) -> bool:
        return bool(self.well) and not (self.badly or self.interrupted or self.silent or self.living or self.missing)


def ends_of(seen: EvidenceSet) -> Ends:
    """By the guards' own records."""
    ends = Ends(_world(seen), {}, {}, {}, {}, frozenset(e.who for e in seen.all(RankDoing) if e.fact.alive))
    exiting = {e.fact.pid for e in seen.all(RankDoing) if e.fact.alive}
    for each in sorted(seen.all(RankEnded), key=lambda e: e.at or 0.0):
        failed = each.fact.goodbye and each.fact.status and each.fact.pid in exiting  # an exit handler may block
        if each.who in ends.living and not failed:
            continue
        for known in (ends.well, ends.badly, ends.interrupted, ends.silent):
            known.pop(each.who, None)
        _kind(seen, ends, each)[each.who] = each
    return ends


def _kind(seen: EvidenceSet, ends: Ends, each: Evidence[RankEnded]) -> dict[int | None, Evidence[RankEnded]]:
    fact = each.fact
    told = exit_of(seen, fact.pid)
    code = told.fact.code if told is not None else None
    if fact.goodbye and fact.raised == INTERRUPTED:
        return ends.interrupted
    if fact.goodbye:
        return (
            ends.badly
            if (code if code is not None else fact.status) or (told is not None and told.fact.signal)
            else ends.well
        )
    if told is not None and code == 0:
        return ends.well
    by_design = told is None or (
        told.fact.signal in _SENT_BY_DESIGN and (not code or code == _LEFT_BY_DESIGN.get(fact.killed_as or ""))
    )
    if (
        fact.killed_as
        and not fact.in_training
        and by_design
        and not raised_by(seen, each.who)
        and not _missed(seen, each)
    ):
        return ends.well
    return ends.silent


def _missed(seen: EvidenceSet, each: Evidence[RankEnded]) -> bool:
    """Whether another rank lost its peer once this one had gone: then the work was not done, and no end planned."""
    ended = {e.who: e.at for e in seen.all(RankEnded)}
    lost = (e for e in seen.all(PeerLost) if e.who not in (None, each.who) and not seen.survived(e))
    return any((e.at or ended.get(e.who) or 0.0) > (each.at or 0.0) - BOX_S for e in lost)


def exit_of(seen: EvidenceSet, pid: int | None) -> Evidence[ProcessExited] | None:
    """What the kernel said about the end of this very process."""
    return next((e for e in seen.all(ProcessExited) if pid is not None and e.fact.pid == pid), None)


def raised_by(seen: EvidenceSet, rank: int | None) -> bool:
    """Whether this rank is known to have raised an exception that was not merely logged."""
    return any(e.who == rank and not e.fact.logged and not e.fact.place for e in seen.all(ExceptionRaised))


def stopped_before(seen: EvidenceSet, at: float | None) -> bool:
    """Whether the run had stopped before this moment: then that is why it was ended.

    A rank that stops in a step, or provably, has stopped; saving and evaluating take a while.
    """
    return waited_to_the_end(seen) is not None or any(
        (e.fact.proven or e.fact.phase in _STEPPING) and (at is None or e.at is None or e.at <= at)
        for e in seen.all(RankStopped)
    )


def given_up_before(seen: EvidenceSet, place: Evidence[Fact]) -> bool:
    """Whether a watchdog had given up for want of progress before this: then the watchdog is who ended the run."""
    return any(not seen.survived(e) and not clearly_after(e, place) for e in seen.all(NoProgress))


def clearly_after(one: Evidence[Fact], other: Evidence[Fact]) -> bool:
    """By their lines in one log, else by their times."""
    if one.origin.source == other.origin.source and one.origin.line is not None and other.origin.line is not None:
        return one.origin.line > other.origin.line
    return one.at is not None and other.at is not None and one.at > other.at + other.later_s + BOX_S


def ended_by_hand(seen: EvidenceSet) -> bool:
    """Whether Ctrl-C ended everything that ended badly here."""
    ends = seen.once(ends_of)
    pids = {e.fact.pid for e in ends.interrupted.values()}
    raised = {
        e.fact.type.rpartition(".")[2]
        for e in seen.all(ExceptionRaised)
        if not seen.survived(e) and not seen.merely_logged(e)
    }
    told = all(e.fact.pid in pids or e.fact.signal in _SENT_BY_DESIGN[1:] for e in seen.bad_exits)
    return bool(pids) and not ends.badly and raised <= {INTERRUPTED, "SignalException"} and told


def waited_to_the_end(seen: EvidenceSet) -> tuple[Evidence[PeersWait], float] | None:
    """Ranks that waited for another when the job ended, and how long (many usual steps) none of them had moved."""
    last = max((e for e in seen.all(PeersWait)), key=lambda e: e.at or 0.0, default=None)
    doing = {e.who: e for e in seen.all(RankDoing)}
    if last is None or len(doing) < 2:
        return None
    still = []
    for who, each in doing.items():
        fact, interrupted = each.fact, seen.once(ends_of).interrupted.get(who)
        silent = fact.silent_s or 0.0
        if fact.phase == "end" and interrupted is not None:  # it moved only to exit
            silent = (interrupted.at or 0.0) - (last.at or 0.0)
        elif fact.phase not in _STEPPING:
            return None
        if fact.alive or not fact.steps or silent <= max(STOOD_STILL_S, STOOD_STILL_STEPS * (fact.usual_step_s or 0.0)):
            return None
        if who in last.fact.late and fact.steps > (last.fact.steps or 0) + 1:
            return None  # it continued after that
        still.append(silent)
    return last, min(still)


def is_supervised(seen: EvidenceSet) -> bool:
    """Whether `keepstep run` started it: then it recorded how each rank ended."""
    return bool(seen.all(StartedWith)) or any(e.fact.reporter == SUPERVISOR for e in seen.all(ProcessExited))


def ended_well(seen: EvidenceSet) -> bool:
    """Whether every rank finished with status 0, according to its supervisor or to all ranks."""
    if is_supervised(seen):
        exits = [e.fact for e in seen.all(ProcessExited) if e.fact.reporter == SUPERVISOR]
        return bool(exits) and all(fact.code == 0 and fact.signal is None for fact in exits) and not _not_told(seen)
    return (seen.once(ends_of).all_well or _all_left_well(seen)) and not _was_interrupted(seen)


def _was_interrupted(seen: EvidenceSet) -> bool:
    """Whether ranks stood still when the user pressed Ctrl-C: those of `mp.spawn` then leave with status 0."""
    return bool(seen.all(RankStopped)) and any(
        each.fact.type == "KeyboardInterrupt" for each in seen.all(ExceptionRaised)
    )


def _all_left_well(seen: EvidenceSet) -> bool:
    """Whether a launcher reported status 0 for every rank that these logs know, and of nobody anything else."""
    exits = seen.all(ProcessExited)
    well = {e.who for e in exits if e.fact.code == 0 and e.fact.signal is None and e.who is not None}
    if len(well) < SEVERAL or seen.bad_exits or seen.once(ends_of).missing:
        return False
    return seen.ranks <= well and well >= set(everyone(seen.world_size or 0))


def is_known_how_it_ended(seen: EvidenceSet) -> bool:
    """Whether the end of every rank that no longer runs is known."""
    ends = seen.once(ends_of)
    if is_supervised(seen):
        told = any(e.fact.reporter == SUPERVISOR for e in seen.all(ProcessExited))
        return (told and not _not_told(seen)) or bool(ends.living or seen.all(TerminationRequested))
    return not ends.missing and not ends.silent


def _not_told(seen: EvidenceSet) -> set[int]:
    """Of a run on several hosts: the ranks whose end no agent has reported. A host may have been lost."""
    expected = {rank for e in seen.all(RanksOnHost) for rank in e.fact.ranks if rank not in e.fact.serving}
    told = {e.who for e in seen.all(ProcessExited) if e.fact.reporter == SUPERVISOR}
    return {rank for rank in expected if rank not in told} if told != {None} else set()


def stands_still_s(seen: EvidenceSet) -> float | None:
    """How long the ranks that still run have made no progress in their steps; None while one of them does."""
    living = [e.fact for e in seen.all(RankDoing) if e.fact.alive]
    if not living or any(fact.phase not in _STEPPING or fact.silent_s is None for fact in living):
        return None
    usual = max(fact.usual_step_s or 0.0 for fact in living)
    still = min(fact.silent_s or 0.0 for fact in living)
    return still if still > max(BOX_S, STOOD_STILL_STEPS * usual) else None


def _world(seen: EvidenceSet) -> int | None:
    sizes = [e.fact.world for e in seen.all(RankEnded) if e.fact.world]
    sizes += [e.fact.world for e in seen.all(RankDoing) if e.fact.world]
    sizes += [e.fact.size for e in seen.all(WorldFormed) if e.fact.size > 1]
    return max(sizes, default=None)
