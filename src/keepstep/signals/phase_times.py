# SPDX-License-Identifier: Apache-2.0
"""How long a rank was in each phase between two looks at its black box, and how long its steps took. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from keepstep.signals.blackbox import BoxPhase, Record, RecordKind, phase_of

MOST_RECORDS = 4000
"""That are read for one look: more than a second of steps of one millisecond."""


@dataclass
class PhaseTimes:
    """``spent``: nanoseconds by phase, which add up to the time between the looks; ``steps``: how long each took."""

    spent: dict[BoxPhase, int] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    last: BoxPhase = BoxPhase.START
    """The phase at the second look."""
    held: Record | None = None
    """The newest look at the processor time of the training's thread."""


def phase_times(
    newest: Iterator[Record], since: int, until: int, before: BoxPhase = BoxPhase.START, *, most: int = MOST_RECORDS
) -> PhaseTimes:
    """``newest``: the records from the newest back; ``before``: the phase at the first look. Times are nanoseconds.

    What lies before the oldest record that is read counts for the phase ``before``.
    """
    found = PhaseTimes(last=before)
    end, known = until, False
    for number, record in enumerate(newest):
        if record.at <= since or number >= most:
            break
        if record.at > until:
            continue
        if record.kind == RecordKind.STEP and record.extra > 0:
            found.steps.append(record.extra)
        elif record.kind == RecordKind.HELD:
            found.held = found.held or record
        elif record.kind == RecordKind.PHASE:
            phase = phase_of(record.value)
            if not known:
                found.last, known = phase, True
            found.spent[phase] = found.spent.get(phase, 0) + end - record.at
            end = record.at
    if end > since:
        found.spent[before] = found.spent.get(before, 0) + end - since
    if not known and before is BoxPhase.START and found.steps:  # a guard that shows no phases, only steps
        found.last, found.spent = BoxPhase.COMPUTE, {BoxPhase.COMPUTE: until - since}
    return found
