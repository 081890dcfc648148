# SPDX-License-Identifier: Apache-2.0
"""How long ago the loss was best: worth knowing, and no alarm, because many healthy losses pause for long."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.training import StepSeen
from keepstep.model.report import Note

READINGS = 20
"""So many losses since the best one, none of them better, are more than noise..."""
SHARE = 1 / 3
"""... if they are this share of all steps that were printed."""


def best_loss(seen: EvidenceSet) -> tuple[Note, ...]:
    """A note, where the log with the most losses shows no better one for long. Steps must only ever rise."""
    if not seen.has(StepSeen):
        return ()
    streams: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for each in seen.all(StepSeen):
        if each.fact.step is not None and each.fact.loss is not None:
            streams[each.origin.writer].append((each.fact.step, each.fact.loss))
    readings = max(streams.values(), key=len, default=[])
    if len(readings) <= READINGS or any(before >= after for (before, _), (after, _) in pairwise(readings)):
        return ()
    (first, _), (last, loss) = readings[0], readings[-1]
    place = min(range(len(readings)), key=lambda number: (not math.isfinite(readings[number][1]), readings[number][1]))
    step, best = readings[place]
    since = last - step
    if not math.isfinite(loss) or len(readings) - 1 - place < READINGS or since < SHARE * (last - first):
        return ()
    return (Note(says=f"the best loss was {since:,} steps ago: {best:g} at step {step:,}, {loss:g} at the end"),)
