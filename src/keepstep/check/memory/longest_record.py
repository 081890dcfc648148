# SPDX-License-Identifier: Apache-2.0
"""The longest record of the data beside the records that the dry run saw, and a forecast with that length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from keepstep.base.wording import shorten, size
from keepstep.check.memory.forecast import Forecast
from keepstep.check.place import Collected
from keepstep.model.evidence import Coverage, CoverageState


@dataclass(frozen=True)
class LongRecord:
    """``longest``: so many ``unit`` a record of the data has in ``field``; ``seen``: the most in a batch, if known."""

    field: str
    unit: str
    longest: int
    seen: int | None = None

    def __str__(self) -> str:
        times = f", {self.longest / self.seen:.1f} times the {self.seen:,} that were seen" if self.seen else ""
        return f"the longest record ({shorten(self.field, 40)} has {self.longest:,} {self.unit}{times})"


def longest_of(longest: Mapping[tuple[str, str], int], lengths: Mapping[str, int]) -> LongRecord | None:
    """The field of the data that a batch has too, else the longest list, else the longest text."""
    named = [LongRecord(name, unit, most, lengths[name]) for (name, unit), most in longest.items() if name in lengths]
    named = [each for each in named if each.unit == "values"]
    if named:
        return max(named, key=lambda each: each.longest / (each.seen or 1))
    for unit, seen in (("values", max(lengths.values(), default=None)), ("characters", None)):
        found = [LongRecord(name, unit, most, seen) for (name, of), most in longest.items() if of == unit]
        if found:
            return max(found, key=lambda each: each.longest)
    return None


def with_longest(
    found: LongRecord | None, again: Callable[[tuple[int, int]], Forecast | None], seen: Collected
) -> Forecast | None:
    """Say what the longest record would need. ``again`` forecasts with records of one length stretched to another.

    Returns that forecast, where there is one.
    """
    made = None
    if found is None:
        seen.unavailable("the longest record", "the data has no field of texts or lists whose length is known")
    elif found.seen is None:
        why = "the forecast is for the batches that were seen; how long these records become there is not known"
        seen.coverage.append(Coverage(what=str(found), state=CoverageState.NOT_CHECKED, why=why))
    elif found.longest <= found.seen:
        seen.checked(f"the longest record ({found.longest:,} {found.unit}, no more than were seen)")
    elif (made := again((found.longest, found.seen))) is None:
        seen.partly(str(found), "the script could not be tried with it; the forecast is for the batches that were seen")
    elif made.verdict == "fits":
        seen.checked(f"{found}: {_needs(made)}")
    else:
        seen.partly(str(found), f"{_needs(made)}, unless the script cuts or packs its records")
    return made


def _needs(made: Forecast) -> str:
    return f"{made.verdict}, it needs {size(made.low)} to {size(made.high)}"
