# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` is asked, and the answer: a forecast and a report on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from keepstep.base.wording import size
from keepstep.check.checkup import judge
from keepstep.check.memory.devices import Device
from keepstep.check.memory.forecast import AS_WRITTEN, Forecast, forecast
from keepstep.check.memory.forecast_of_programs import COMPILED, forecast_of_programs
from keepstep.check.memory.host import HostForecast, HostRemedy, host_forecast, host_remedies
from keepstep.check.memory.longest_record import longest_of, with_longest
from keepstep.check.memory.over_time import over_time
from keepstep.check.memory.remedies import Advice, Search
from keepstep.check.memory.try_script import Tried, try_script
from keepstep.check.place import Collected
from keepstep.cluster.launch_line import LaunchLine
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts import DeviceMemoryForecast, HostMemoryForecast
from keepstep.model.report import Report
from keepstep.render.memory_picture import HeldOverTime

WHOLE = "whether the training fits"
SEARCH_S = 120.0
AFTER_S_OF_A_CHANGE = 5.0
SEEN = {
    "torch": ("two optimizer steps of the script on tensors without content",) * 2,
    "jax": ("two steps of the script on arrays without content", "the whole script on arrays without content"),
    "tensorflow": ("two steps of the script, which were traced but not run", "the functions that the script ran"),
}
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
    advice: Advice | None = None
    held: HeldOverTime | None = None
    host: HostForecast | None = None
    host_remedies: tuple[HostRemedy, ...] = ()
    facts: tuple[Evidence[DeviceMemoryForecast | HostMemoryForecast], ...] = ()
    """The forecasts, where they are answers."""


@dataclass(frozen=True)
class Host:
    """How many ranks are on one, and what memory it has, if that was said."""

    ranks: int
    total: int | None = None


def check_memory(
    line: LaunchLine,
    device: Device,
    ranks: int,
    limit_s: float,
    search_s: float | None,
    host: Host,
    longest: Mapping[tuple[str, str], int] | None = None,
    tell: Callable[[dict[str, Any]], None] = lambda news: None,
) -> MemoryChecked:
    """Try the script, count, judge. ``search_s``: time for what would help; None: a while, unless it fits.

    ``longest``: what `check data` found of each field of the data. ``tell`` hears where the script is.
    """
    tried = try_script(line, device, ranks, limit_s, tell=tell)
    name = line.script or line.module
    holds = any(number >= 0 for number, _ in tried.seen.get("events", ()))
    by = forecast_of_programs if tried.seen.get("framework") in COMPILED else forecast
    made = by(tried.seen, device, ranks) if holds else None
    seen = Collected()
    complete = _covered(seen, tried, made)
    advice = None
    if made is not None and by is forecast and tried.seen.get("ended") == "steps":
        if search_s is None:
            search_s = 0.0 if made.verdict == "fits" else SEARCH_S
        if search_s > 0:
            run = partial(_with_change, line, device, ranks)
            advice = Search(tried.seen, made, ranks, run, search_s).advice()
    longer = None
    if longest is not None and made is not None and complete:

        def again(length: tuple[int, int]) -> Forecast | None:
            tried = _with_change(line, device, ranks, {"length": length}, limit_s)
            return forecast(tried, device, ranks) if tried.get("ended") == "steps" else None

        longer = with_longest(longest_of(longest, tried.seen.get("lengths", {})), again, seen)
    fact = None
    if made is not None and (complete or made.verdict == "does not fit"):
        seen.add(fact := _evidence(made, name, ranks, advice or Advice(), longer))
    of_host = host_forecast(tried.seen, host.ranks, host.total) if by is forecast and tried.seen.get("steps") else None
    facts: tuple[Evidence[Any], ...] = (fact,) if fact is not None else ()
    for_host: tuple[HostRemedy, ...] = ()
    if of_host is not None:
        if of_host.verdict not in ("", "fits"):
            for_host = host_remedies(tried.seen, of_host)
        seen.add(about_host := _evidence_of_host(of_host, name, for_host))
        facts += (about_host,) if facts else ()
    held = over_time(tried.seen, device, made) if made is not None and by is forecast else None
    confined = CONFINED.get(tried.seen.get("confined", ""), "")
    said = () if complete else tried.said
    return MemoryChecked(judge(seen), made, said, confined, complete, advice, held, of_host, for_host, facts)


def _with_change(
    line: LaunchLine, device: Device, ranks: int, change: dict[str, Any], limit_s: float
) -> dict[str, Any]:
    return try_script(line, device, ranks, limit_s, change, AFTER_S_OF_A_CHANGE).seen


def _covered(seen: Collected, tried: Tried, made: Forecast | None) -> bool:
    """Say what was looked at. Whether all of it was seen that matters."""
    if not tried.seen:
        seen.unavailable(WHOLE, tried.why)
        return False
    ended, steps = tried.seen.get("ended"), tried.seen.get("steps", 0)
    if made is None:
        why = _failure(tried) if ended in ("error", "late") else "the script put nothing on the device"
        seen.unavailable(WHOLE, why)
        return False
    for what, place in tried.seen.get("guesses", {}).items():
        if what == AS_WRITTEN and made.verdict == "fits":
            seen.checked(what)
            continue
        seen.partly(short_place(place) or "the script", what)
    to_the_end = made.framework != "torch" and ended in ("end", "exit") and not tried.seen.get("error")
    if ended not in ("steps", "same") and steps < 2 and not to_the_end and made.verdict != "does not fit":
        why = _failure(tried) if ended in ("error", "late") else f"the script ended after {steps} optimizer steps"
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
        seen.checked(SEEN.get(made.framework, SEEN["torch"])[to_the_end])
    return True


def _failure(tried: Tried) -> str:
    place = short_place(tried.seen.get("place", ""))
    if tried.seen.get("ended") == "late":
        steps = tried.seen.get("steps", 0)
        return f"the time was over{f' at {place}' if place else ''}, after {steps} of two optimizer steps (--timeout)"
    return f"the dry run failed{f' at {place}' if place else ''}: {tried.seen.get('error')}"


def _evidence(
    made: Forecast, name: str, ranks: int, advice: Advice, longer: Forecast | None
) -> Evidence[DeviceMemoryForecast]:
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
        remedies=tuple((each.what, each.forecast.high) for each in advice.remedies),
        batch=advice.batch,
        largest_batch=advice.largest,
        longest=longer.allocated if longer is not None else None,
        framework=made.framework,
    )
    source, _, number = short_place(made.line).rpartition(":")
    origin = Origin(source=source, line=int(number)) if source and number.isdecimal() else Origin(source=name)
    quote = f"needs {size(made.low)} to {size(made.high)} of {made.device.name}"
    return Evidence(fact=fact, origin=origin, quote=quote)


def _evidence_of_host(made: HostForecast, name: str, remedies: tuple[HostRemedy, ...]) -> Evidence[HostMemoryForecast]:
    fact = HostMemoryForecast(
        total=made.total,
        low=made.low,
        high=made.high,
        ranks=made.ranks,
        parts=tuple((part, high) for part, _, high in made.parts),
        workers=made.workers,
        remedies=tuple((each.what, each.forecast.high) for each in remedies),
    )
    return Evidence(fact=fact, origin=Origin(source=name), quote=f"needs {size(made.low)} to {size(made.high)}")


def short_place(place: str) -> str:
    """A line of a file here, without the folder."""
    here = os.getcwd() + os.sep
    return place.removeprefix(here).removeprefix("./")
