# SPDX-License-Identifier: Apache-2.0
"""Which rank keeps the others waiting, by the ranks' black boxes. Pure.

In synchronous training every rank's steps take equally long, because all wait for the slowest. What gives it away is
how long each waits for its batches or for a processor, which needs no common clock; and, among ranks that share a
clock, which one ends its steps after the others. A rank that no other waits for is no straggler, however slow: ranks
may train independently, or only hand their steps to a device and run ahead. So the first question is whether the others
do wait.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from keepstep.signals.blackbox import LEAN, BoxPhase, Record, RecordKind
from keepstep.signals.processor_wait import SPAN_NS, crowding, held_back, held_share

STEPS = 40
"""The last steps that are compared."""
FEWEST = 12
LATE_SHARE = 0.15
"""Share of a step: finishing this much later than the first, on average, is late."""
LATE_NS = 10_000_000
LEAST_NS = 5_000_000
OFTEN = 0.2
"""Share of the steps."""
ODD_STEPS = 3
"""The longest delays of a rank that do not count: a checkpoint, an evaluation, a hiccup."""
WAITS_SHARE = 0.5
ALIKE = 3.0
"""How many times longer than the others."""
CROWDED = 2.0
"""With this many processes per core, any rank there is late for that reason alone."""
EXPLAINS = 0.5
"""Share of what a rank loses."""
TOGETHER = 0.75
"""Share of a rank's time for its last steps: ranks that wait for it take at least this long for the same steps."""
IN_STEP = 0.9
"""Share of the steps: no rank finishes one before all have finished the previous one."""


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that the others wait for: the phase in which it loses time, how much per step, and the others' loss."""

    rank: int
    phase: BoxPhase
    seconds: float
    others_s: float
    step_s: float
    steps: int
    before_s: float | None = None
    """What it lost there in the steps before these; None: too few are left."""
    held: bool = False
    """Whether it is kept from the processor: ready, but not allowed to run."""

    @property
    def words(self) -> str:
        """What it does, compared with the others and with itself before."""
        own = "" if self.before_s is None else f", before {self.before_s:.3f} s"
        beside = f"(others {self.others_s:.3f} s{own}), in the last {self.steps} steps"
        if self.held:
            return f"waits for a processor for {self.seconds:.3f} s of each {self.step_s:.3f} s step {beside}"
        if self.phase is BoxPhase.INPUT:
            return f"waits for each batch {self.seconds:.3f} s {beside}"
        return f"finishes each step {self.seconds:.3f} s after the first rank {beside}"


def late_ranks(records: Mapping[int, Sequence[Record]]) -> tuple[LateRank, ...]:
    """The rank that keeps the others waiting, if any. The records are by rank, on one clock, oldest first."""
    if len(records) < 2:
        return ()
    return late_by_durations(records) or _late_at_the_end(records)


def late_by_durations(records: Mapping[int, Sequence[Record]]) -> tuple[LateRank, ...]:
    """The same for different clocks, as between hosts: by what each rank loses on its own clock."""
    if len(records) < 2:
        return ()
    found = _late_by_input(records) or _late_by_the_processor(records)
    return tuple(late for late in found if _is_waited_for(late.rank, records))


def _is_waited_for(rank: int, records: Mapping[int, Sequence[Record]]) -> bool:
    """Whether the others take as long for their last steps as this rank does, each by its own clock."""
    ends = _ends(records)
    common = _common(ends)
    common = common[-max(STEPS, len(common) // 2) :]
    if len(common) < FEWEST:
        return False
    taken = {each: ended[common[-1]] - ended[common[0]] for each, ended in ends.items()}
    return min(taken.values()) >= TOGETHER * taken[rank]


def _ends(records: Mapping[int, Sequence[Record]]) -> dict[int, dict[int, int]]:
    """By rank, when each of its steps ended."""
    return {rank: {r.value: r.at for r in each if r.kind == RecordKind.STEP} for rank, each in records.items()}


def _common(ends: Mapping[int, Mapping[int, int]]) -> list[int]:
    return sorted(set.intersection(*(set(each) for each in ends.values())))


def _late_by_the_processor(records: Mapping[int, Sequence[Record]]) -> tuple[LateRank, ...]:
    found = held_back(records)
    if found is None:
        return ()
    step_s = found.step_ns / 1e9
    before = found.before * step_s if found.before is not None else None
    return (
        LateRank(
            found.rank,
            BoxPhase.COMPUTE,
            found.share * step_s,
            found.others * step_s,
            step_s,
            found.steps,
            before,
            held=True,
        ),
    )


def _late_by_input(records: Mapping[int, Sequence[Record]]) -> tuple[LateRank, ...]:
    waits = {rank: input_and_step(each) for rank, each in records.items()}
    known = {rank: each for rank, each in waits.items() if each is not None}
    if len(known) < len(records):
        return ()
    found = _odd_one(
        {rank: wait for rank, (wait, _, _) in known.items()},
        step_ns=int(median(step for _, step, _ in known.values())),
        share=WAITS_SHARE,
        phase=BoxPhase.INPUT,
        steps=min(steps for _, _, steps in known.values()),
        crowd=max(map(crowding, records.values())),
    )
    return tuple(
        replace(late, before_s=_input_before(records[late.rank]))
        for late in found
        if not _merely_held(late, records[late.rank])
    )


def _input_before(records: Sequence[Record]) -> float | None:
    """Its usual wait for a batch before the last steps."""
    ended = [number for number, record in enumerate(records) if record.kind == RecordKind.STEP]
    before = input_and_step(records[: ended[-STEPS] + 1]) if len(ended) > STEPS else None
    return before[0] / 1e9 if before is not None else None


def input_and_step(records: Sequence[Record]) -> tuple[int, int, int] | None:
    """The usual wait for a batch and time of a step, in nanoseconds, and over how many steps; None: too few."""
    waits: list[int] = []
    steps: list[int] = []
    entered: int | None = None
    waited = 0
    for record in records:
        if record.kind == RecordKind.PHASE:
            if entered is not None:
                waited += record.at - entered
            entered = record.at if record.value == BoxPhase.INPUT else None
        elif record.kind == RecordKind.STEP:
            if record.extra > 0 and record.spare != LEAN:
                waits.append(waited)
                steps.append(record.extra)
            waited = 0
    if len(steps) < FEWEST:
        return None
    return int(median(waits[-STEPS:])), int(median(steps[-STEPS:])), len(steps[-STEPS:])


def _late_at_the_end(records: Mapping[int, Sequence[Record]]) -> tuple[LateRank, ...]:
    """One rank finishes clearly last in many of the steps, and no other ever does: in healthy runs they take turns."""
    ends = _ends(records)
    common = _lately(_common(ends), next(iter(ends.values())))
    if len(common) < FEWEST or not _in_step(ends, common):
        return ()
    first = {step: min(each[step] for each in ends.values()) for step in common}
    delays = {rank: [each[step] - first[step] for step in common] for rank, each in ends.items()}
    often = {rank: sum(delay > LATE_NS for delay in each) for rank, each in delays.items()}
    worst = max(often, key=lambda rank: often[rank])
    whole = [first[b] - first[a] for a, b in itertools.pairwise(common) if b == a + 1]
    seldom = max(1, len(common) // STEPS)
    if not whole or often[worst] < OFTEN * len(common) or any(n > seldom for rank, n in often.items() if rank != worst):
        return ()
    late = {rank: _usually(each) for rank, each in delays.items()}
    found = _odd_one(late, step_ns=_usually(whole), share=LATE_SHARE, phase=BoxPhase.COMPUTE, steps=len(common))
    return tuple(each for each in found if not _merely_held(each, records[each.rank]))


def _lately(steps: list[int], ended: Mapping[int, int]) -> list[int]:
    """The last steps that define a pace: this many, over this long. None if all took less: that is a hiccup."""
    if not steps or ended[steps[-1]] - ended[steps[0]] < SPAN_NS:
        return []
    first = next(n for n in reversed(range(len(steps))) if ended[steps[-1]] - ended[steps[n]] >= SPAN_NS)
    return steps[min(first, max(0, len(steps) - STEPS)) :]


def _in_step(ends: Mapping[int, Mapping[int, int]], common: Sequence[int]) -> bool:
    """Whether ranks wait for each other in every step: none finishes one before all have finished the previous one."""
    pairs = [(a, b) for a, b in itertools.pairwise(common) if b == a + 1]
    waited = sum(min(each[b] for each in ends.values()) >= max(each[a] for each in ends.values()) for a, b in pairs)
    return waited >= IN_STEP * len(pairs)


def _merely_held(late: LateRank, records: Sequence[Record]) -> bool:
    """Whether a rank on a crowded host is late because it did not get the processor, like every rank there."""
    held = held_share(records) if crowding(records) >= CROWDED else None
    return held is not None and held * late.step_s >= EXPLAINS * (late.seconds - late.others_s)


def _usually(delays: list[int]) -> int:
    """The mean without the few longest: a rank held back in bursts is late on average, but on time by the median."""
    kept = sorted(delays)[: max(1, len(delays) - ODD_STEPS)]
    return sum(kept) // len(kept)


def _odd_one(
    lost: Mapping[int, int], *, step_ns: int, share: float, phase: BoxPhase, steps: int, crowd: float = 1.0
) -> tuple[LateRank, ...]:
    worst = max(lost, key=lambda rank: lost[rank])
    others = max(value for rank, value in lost.items() if rank != worst)
    if lost[worst] < max(LEAST_NS, share * step_ns) or lost[worst] < ALIKE * crowd * others:
        return ()
    return (LateRank(worst, phase, lost[worst] / 1e9, others / 1e9, step_ns / 1e9, steps),)


# --- Whether a rank loses clearly more of each step than it did before to its own batches or processor. Pure.
#
# Longer steps as a whole prove nothing: all ranks wait for the slowest, and a training may get heavier by design.

LOOKS = 6
"""This many samples in a row."""
TIMES = 3.0
SHARE = 0.3
"""Share of a step."""


@dataclass
class BestPace:
    """What the rank lost at its best. Fed with its last records now and then; the same records give the same answer."""

    rank: int
    _best: dict[bool, float] = field(default_factory=dict)
    _worse: dict[bool, int] = field(default_factory=dict)

    def see(self, records: Sequence[Record]) -> LateRank | None:
        """Takes its last records, oldest first, and returns a loss that has lasted; the caller reports it once."""
        known = input_and_step(records)
        if known is None:
            return None
        waits, step, steps = known
        held, crowd = held_share(records), crowding(records)
        for by_processor, share in ((False, waits / max(step, 1)), (True, held)):
            if share is None:
                continue
            best = self._best.get(by_processor, share)
            self._best[by_processor] = min(best, share)
            worse = share > SHARE and share > TIMES * crowd * best and not (by_processor and crowd >= CROWDED)
            self._worse[by_processor] = self._worse.get(by_processor, 0) + 1 if worse else 0
            if self._worse[by_processor] >= LOOKS:
                lost, before = share * step / 1e9, best * step / 1e9
                phase = BoxPhase.COMPUTE if by_processor else BoxPhase.INPUT
                return LateRank(self.rank, phase, lost, before, step / 1e9, steps, before, held=by_processor)
        return None
