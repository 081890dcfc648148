# SPDX-License-Identifier: Apache-2.0
"""Where the steps of a stream became much slower and stayed so. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.training import StepSeen

FEWEST_BEFORE, FEWEST_AFTER = 8, 4
SLOWER, EACH_SLOWER = 5.0, 3.0
"""All steps since together, and each of them, in times of what was usual before."""
LEAST_S = 1.0

OFTEN, SPIKE = 3, 20.0
"""How many single steps must be this many times as slow as usual; saves and evaluations are announced and known."""
LEAST_SPIKE_S = 5.0
Change = tuple[Evidence[StepSeen], float, float]


def changes_of_pace(seen: EvidenceSet) -> Iterator[Change]:
    """For each stream in which it happened: the first slow step, and the usual time of a step before and since."""
    streams: dict[tuple[str, str], list[Evidence[StepSeen]]] = defaultdict(list)
    for each in seen.all(StepSeen):
        streams[each.origin.writer].append(each)
    for steps in streams.values():
        found = _change(_timed(steps))
        if found is not None:
            yield found


def _timed(steps: Sequence[Evidence[StepSeen]]) -> list[tuple[Evidence[StepSeen], float]]:
    """How long each step took, as printed, or else by the clock for as many steps as were taken."""
    printed = [(e, e.fact.seconds) for e in steps if e.fact.seconds is not None]
    if len(printed) > len(steps) / 2:
        return printed
    found = []
    for one, other in pairwise(steps):
        if one.at is None or other.at is None or one.fact.step is None or other.fact.step is None:
            continue
        if other.fact.step > one.fact.step and other.at > one.at:
            found.append((other, (other.at - one.at) / (other.fact.step - one.fact.step)))
    return found


def _change(timed: list[tuple[Evidence[StepSeen], float]]) -> Change | None:
    """The cut is where the slow steps at the end begin."""
    usual = median(s for _, s in timed[: max(FEWEST_BEFORE, len(timed) // 2)]) if len(timed) > FEWEST_BEFORE else 0.0
    cut = len(timed)
    while cut > 0 and timed[cut - 1][1] >= EACH_SLOWER * usual > 0:
        cut -= 1
    if cut < FEWEST_BEFORE or len(timed) - cut < FEWEST_AFTER:
        return None
    before, since = median(s for _, s in timed[:cut]), median(s for _, s in timed[cut:])
    return (timed[cut][0], before, since) if since >= max(SLOWER * before, LEAST_S) else None


def slow_again(seen: EvidenceSet) -> Iterator[tuple[list[Evidence[StepSeen]], list[Evidence[StepSeen]], float, float]]:
    """For each stream: slow steps that come again and again among fast ones, the fast ones, and both usual times."""
    streams: dict[tuple[str, str], list[Evidence[StepSeen]]] = defaultdict(list)
    for each in seen.all(StepSeen):
        streams[each.origin.writer].append(each)
    for steps in streams.values():
        timed = [(e, s) for e, s in _timed(steps) if e.fact.seconds is not None][1:]  # the first one is always slow
        if len(timed) < FEWEST_BEFORE:
            continue
        usual = median(s for _, s in timed)
        slow = [(e, s) for e, s in timed if s >= max(SPIKE * usual, LEAST_SPIKE_S)]
        if OFTEN <= len(slow) <= len(timed) / 2:
            fast = [e for e, s in timed if s < SPIKE * usual]
            yield [e for e, _ in slow], fast, usual, median(s for _, s in slow)
