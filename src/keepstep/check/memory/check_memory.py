# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` is asked, and the answer: a forecast and a report on it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from keepstep.base.wording import size
from keepstep.check.checkup import judge
from keepstep.check.memory.devices import Device
from keepstep.check.memory.forecast import Forecast, forecast
from keepstep.check.memory.launch_line import LaunchLine
from keepstep.check.memory.try_script import Tried, try_script
from keepstep.check.place import Collected
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts import DeviceMemoryForecast
from keepstep.model.report import Report

WHOLE = "whether the training fits"
CONFINED = {
    "namespaces": "The script ran in namespaces of its own: it changed no file of yours\nand had no network.",
    "hooks": "Hooks kept the script from writing, connecting and starting processes.\nThey do not hold native code.",
}


@dataclass(frozen=True)
class MemoryChecked:
    report: Report
    forecast: Forecast | None
    said: tuple[str, ...] = ()
    """The last lines of the script, where it failed."""
    confined: str = ""
    complete: bool = False
    """All of it was seen that matters, so the forecast is an answer."""


def check_memory(line: LaunchLine, device: Device, ranks: int, limit_s: float) -> MemoryChecked:
    """Try the script, count, judge."""
    tried = try_script(line, device, ranks, limit_s)
    name = line.script or line.module
    holds = any(number >= 0 for number, _ in tried.seen.get("events", ()))
    made = forecast(tried.seen, device, ranks) if holds else None
    seen = Collected()
    complete = _covered(seen, tried, made)
    if made is not None and (complete or made.verdict == "does not fit"):
        seen.add(_evidence(made, name, ranks))
    confined = CONFINED.get(tried.seen.get("confined", ""), "")
    return MemoryChecked(judge(seen), made, () if complete else tried.said, confined, complete)


def _covered(seen: Collected, tried: Tried, made: Forecast | None) -> bool:
    """Say what was looked at. Whether all of it was seen that matters."""
    if not tried.seen:
        seen.unavailable(WHOLE, tried.why)
        return False
    ended, steps = tried.seen.get("ended"), tried.seen.get("steps", 0)
    if made is None:
        why = _failure(tried) if ended == "error" else "the script put nothing on the device"
        seen.unavailable(WHOLE, why)
        return False
    for what, place in tried.seen.get("guesses", {}).items():
        seen.partly(short_place(place) or "the script", what)
    if ended != "steps" and steps < 2 and made.verdict != "does not fit":
        why = _failure(tried) if ended == "error" else f"the script ended after {steps} optimizer steps"
        seen.partly(WHOLE, why)
        return False
    if made.wrong_sums:
        seen.partly(WHOLE, f"the count of {' and '.join(made.wrong_sums)} is not what their shapes say")
        return False
    if made.verdict == "too close to say":
        seen.partly(
            WHOLE, f"too close to say: it needs {size(made.low)} to {size(made.high)} of {size(made.device.total)}"
        )
    else:
        seen.checked("two optimizer steps of the script on tensors without content")
    return True


def _failure(tried: Tried) -> str:
    place = short_place(tried.seen.get("place", ""))
    return f"the dry run failed{f' at {place}' if place else ''}: {tried.seen.get('error')}"


def _evidence(made: Forecast, name: str, ranks: int) -> Evidence[DeviceMemoryForecast]:
    fact = DeviceMemoryForecast(
        device=made.device.name,
        total=made.device.total,
        low=made.low,
        high=made.high,
        allocated=made.allocated,
        reserved=made.reserved,
        parts=made.parts,
        line=short_place(made.line) or None,
        asked=made.asked,
        ranks=ranks,
    )
    source, _, number = short_place(made.line).rpartition(":")
    origin = Origin(source=source, line=int(number)) if source and number.isdecimal() else Origin(source=name)
    quote = f"needs {size(made.low)} to {size(made.high)} of {made.device.name}"
    return Evidence(fact=fact, origin=origin, quote=quote)


def short_place(place: str) -> str:
    """A line of a file here, without the folder."""
    here = os.getcwd() + os.sep
    return place.removeprefix(here).removeprefix("./")
