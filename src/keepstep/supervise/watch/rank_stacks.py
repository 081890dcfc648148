# SPDX-License-Identifier: Apache-2.0
"""Look at the stacks of ranks: long enough to see whether they move, or once, before they are ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from keepstep.analyze.live import look_at_live
from keepstep.base.wording import count, ranks
from keepstep.model.cause import Cause
from keepstep.model.evidence import Coverage, Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import RankDoing, RankStopped
from keepstep.model.facts.process import ProcessSeen, StackDump
from keepstep.model.identity import Rank
from keepstep.model.report import Report, Verdict
from keepstep.rules import builtin_rules
from keepstep.rules.asking.live_jobs import jobs, stands_still
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.waits import WaitKind, waits_in
from keepstep.sources.host import processes
from keepstep.sources.stacks import process_stacks
from keepstep.story.engine import diagnose
from keepstep.supervise.start.priority import eagerly
from keepstep.supervise.watch.hang_detector import Sign, Stop

HURRIED_S = (0.4, 0.9)
"""The boxes already show that nothing moves, so looks may follow each other faster."""
QUICK_LIMIT_S = 2.0
AFTERWARDS_S = 1.5
"""A look holds ranks up. Those that could go on get this long to show it before an unproven silence is reported."""
_ONE_JOB = "the supervised run"
WORKS_SHARE = 0.05
"""Of a core: if stacks could not be compared, a rank that uses this much is at work."""


@dataclass(frozen=True)
class StacksLooked:
    """What the stacks of the ranks showed. ``still``: nobody moved and nobody works; None: unknown."""

    seen: EvidenceSet
    still: bool | None
    report: Report
    sure: bool = True
    """What they wait for does not come by itself: a lock, a signal that stopped one, ranks in different collectives."""

    def names_one_of(self, signs: Sequence[Sign]) -> bool:
        """Whether it shows for which ranks the others wait."""
        root = self.report.root
        return self.report.verdict is Verdict.HUNG and root is not None and 0 < len(root.ranks) < len(signs)

    def still_in(self, kind: str) -> bool | None:
        """The same for one kind of silence: ranks that use the processor are still only in a wait that has a name."""
        return False if kind == "polls" and self.report.verdict is not Verdict.HUNG else self.still

    @property
    def differ(self) -> bool:
        """Whether the ranks are in different collectives, none of which ends without all of them."""
        root = self.report.root
        return root is not None and root.cause is Cause.SYNC_COLLECTIVE_MISMATCH

    @property
    def moves(self) -> list[str]:
        """Each process and why it does not count as still, in words."""
        return [
            f"{each.who}: {each.quote}" + ("" if each.fact.still else ", it moves")
            for each in self.seen.all(ProcessSeen)
        ][:8]


def look(
    signs: Sequence[Sign], *, pauses: Sequence[float] = HURRIED_S, early: Callable[[StacksLooked], None] | None = None
) -> StacksLooked:
    """Several looks at the same processes; they are stopped for a moment only when none of them moves.

    ``early`` gets what Python stacks alone show, before a process is stopped. If nothing is proven, this returns only
    after the ranks have had a moment to move: a caller that looks at their signs then sees whether they do.
    """
    eagerly()
    ranks = {sign.pid: sign.rank for sign in signs}

    def tell(seen: EvidenceSet) -> None:
        if early is not None:
            early(_looked(seen, signs))

    seen = look_at_live(list(ranks), pauses=pauses, stopped_s=process_stacks.STOPPED_S, early=tell, one_job=True)
    looked = _looked(seen, signs)
    if looked.still is not False and not looked.sure:
        time.sleep(AFTERWARDS_S)
    return looked


def _looked(seen: EvidenceSet, signs: Sequence[Sign]) -> StacksLooked:
    seen = _with_ranks(seen, {sign.pid: sign.rank for sign in signs})
    boxes = tuple(_in_box(sign) for sign in signs if sign.phase is not None and sign.rank is not None)
    report = diagnose(EvidenceSet(items=(*seen.items, *boxes), coverage=seen.coverage), builtin_rules())
    return StacksLooked(seen, _still(seen, report), report, _sure(seen, report))


def _in_box(sign: Sign) -> Evidence[Fact]:
    """Which step a rank is in, by its black box: stacks do not always show who waits for whom."""
    assert sign.phase is not None and sign.rank is not None
    fact = RankDoing(phase=sign.phase.name.lower(), steps=sign.steps, alive=True, pid=sign.pid)
    quote = f"{sign.phase.words} after {count(sign.steps, 'step')}"
    return Evidence(fact=fact, origin=Origin(source=f"box of pid {sign.pid}"), rank=Rank(index=sign.rank), quote=quote)


def _still(seen: EvidenceSet, report: Report) -> bool | None:
    """Whether no rank moved and none works. None: unknown, or nobody moves and nobody waits for another."""
    if report.verdict is Verdict.HUNG:
        return True
    states = [each.fact.still for each in seen.all(ProcessSeen)]
    if False in states:
        return False
    if not states or None in states:
        works = any(
            (each.fact.cpu_s or 0.0) > WORKS_SHARE * (each.fact.watched_s or 1e9) for each in seen.all(ProcessSeen)
        )
        return False if works else None
    found = list(jobs(seen))
    if not all(stands_still(job) for job in found):
        return False  # each is at the same place every time, and one of them works there
    return True if any(each.waits_for_others for job in found for each in job) else None


def _sure(seen: EvidenceSet, report: Report) -> bool:
    """Whether the lack of movement proves a hang. A wait for a file, socket, sleep, child or device may end."""
    root = report.root
    if root is None or report.verdict is not Verdict.HUNG:
        return False
    if root.cause is Cause.SYNC_COLLECTIVE_MISMATCH:
        return True
    if any(each.fact.state in ("T", "t") for each in seen.all(ProcessSeen)):
        return True
    threads = [each.fact for each in seen.all(StackDump) if each.who in root.ranks and not _is_idle(each.fact)]
    waits = [waits_in(thread.frames) for thread in threads]
    return any(thread.current for thread in threads) and all(
        wait is not None and wait.kind is WaitKind.LOCK for wait in waits
    )


def _is_idle(thread: StackDump) -> bool:
    """A thread that nobody waits for: one without Python, or the guard's own."""
    python = [frame for frame in thread.frames if not frame.is_native]
    return not thread.current and (not python or any("keepstep/guard/" in (frame.file or "") for frame in python))


def look_once(ranks: Mapping[int, int | None]) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """Where the ranks (by process number) are right now, without stopping them; for those about to be ended."""
    eagerly()
    found = process_stacks.look_at_all(list(ranks), native=False, stop=False, limit=QUICK_LIMIT_S)
    at = time.time()
    items: list[Evidence[Fact]] = []
    for pid, seen in found.items():
        index = ranks[pid]
        rank = Rank(index=index) if index is not None else None
        reading = processes.read(pid)
        if reading is not None:
            fact = ProcessSeen(pid=pid, command="rank", state=reading.state, waits_in=reading.waits_in)
            quote = f"pid {pid} was alive when another rank failed"
            items.append(Evidence(fact=fact, origin=Origin(source=f"pid {pid}"), rank=rank, at=at, quote=quote))
        items.extend(process_stacks.as_evidence(seen, f"pid {pid}", rank, at=at))
    return items, process_stacks.coverage_of(found)


@dataclass(frozen=True)
class Awaited:
    """The processes that the others wait for."""

    pids: frozenset[int] = frozenset()
    for_children: frozenset[int] = frozenset()
    """Those of them that wait for child processes of their own."""
    ranks: tuple[int, ...] = ()
    place: str | None = None
    """The line of the script at which the first of them is."""

    def words(self, of: int) -> str:
        """``of``: how many ranks there are."""
        if not 0 < len(self.ranks) < of:
            return f" at {self.place}" if self.place is not None else ""
        return f": the others waited for {ranks(self.ranks)}" + (f" at {self.place}" if self.place is not None else "")


def awaited(stop: Stop, looked: StacksLooked) -> Awaited:
    """By their stacks, else by their boxes."""
    odd = _odd(stop, looked.report)
    live = {each.process.fact.pid: each for job in jobs(looked.seen) for each in job}
    waits = {sign.pid: live[sign.pid].wait for sign in odd if sign.pid in live}
    frame = live[odd[0].pid].user if odd and odd[0].pid in live else None
    return Awaited(
        frozenset(sign.pid for sign in odd),
        frozenset(pid for pid, wait in waits.items() if wait is not None and wait.kind is WaitKind.CHILDREN),
        tuple(sorted(sign.rank for sign in odd if sign.rank is not None)),
        f"{frame.file}:{frame.line}" if frame is not None else None,
    )


def _odd(stop: Stop, report: Report) -> tuple[Sign, ...]:
    named = report.root.ranks if report.root is not None and report.verdict is Verdict.HUNG else ()
    return tuple(sign for sign in stop.suspicion.signs if sign.rank in named) or stop.suspicion.held_up


def as_evidence(stop: Stop, source: str, report: Report) -> list[Evidence[Fact]]:
    """The stop as a fact about each rank that the others wait for: by their stacks, else by their boxes."""
    items: list[Evidence[Fact]] = []
    for sign in _odd(stop, report):
        phase = sign.phase or BoxPhase.START
        fact = RankStopped(
            phase=phase.name.lower(),
            steps=sign.steps,
            seconds=round(stop.quiet_s, 1),
            usual_s=round(stop.suspicion.usual_s, 6) if stop.suspicion.usual_s else None,
            proven=stop.proven,
        )
        where = f"{phase.words} after {count(sign.steps, 'step')}, " if sign.phase is not None else ""
        usual = f" (usual step {fact.usual_s:.3g} s)" if fact.usual_s else ""
        quote = f"{where}without progress for {fact.seconds:.1f} s{usual}"
        rank = Rank(index=sign.rank) if sign.rank is not None else None
        items.append(Evidence(fact=fact, origin=Origin(source=source), rank=rank, at=time.time(), quote=quote))
    return items


def _with_ranks(seen: EvidenceSet, ranks: Mapping[int, int | None]) -> EvidenceSet:
    """The processes as the supervisor knows them: one job, each with its rank, which a warm spare does not know."""
    items: list[Evidence[Fact]] = []
    for each in seen.items:
        rank = ranks.get(getattr(each.fact, "pid", None) or -1)
        if rank is not None and isinstance(each.fact, ProcessSeen):
            each = replace(each, fact=replace(each.fact, job=_ONE_JOB))
        items.append(replace(each, rank=Rank(index=rank)) if each.rank is None and rank is not None else each)
    return EvidenceSet(items=tuple(items), coverage=seen.coverage)
