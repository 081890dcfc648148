# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` had forecast, beside what a device held when its memory ran out."""

from __future__ import annotations

from keepstep.model.facts import DeviceMemoryExhausted, DeviceMemoryForecast, DeviceMemoryHeld
from keepstep.rules.api import Evidence, EvidenceSet, Fix
from keepstep.rules.asking.memory_advice import gib

MORE = Fix(
    do="find what the run did and the forecast did not see: a longer record, a larger batch, tensors kept between steps"
)
GREW = Fix(do="find what came after the first steps: a longer record, an evaluation, tensors kept between steps")
FROM_THE_START = Fix(
    do="forecast again with the command and the versions of the run: the first steps already needed more"
)
AS_FORECAST = 1.1
"""Times the forecast: up to this it held."""


def earlier_forecast(seen: EvidenceSet) -> tuple[Evidence[DeviceMemoryForecast], ...]:
    """The last one that was made before the run; none if there is none."""
    return tuple(e for e in seen.all(DeviceMemoryForecast) if e.fact.earlier)[-1:]


def held_before(seen: EvidenceSet, full: Evidence[DeviceMemoryExhausted]) -> tuple[Evidence[DeviceMemoryHeld], ...]:
    """What the tensors of that rank held after two steps and at the last note."""
    noted = [e for e in seen.all(DeviceMemoryHeld) if e.who in (full.who, None)]
    return (*noted[:1], *noted[1:][-1:])


def what_differs(held: tuple[Evidence[DeviceMemoryHeld], ...], forecast: DeviceMemoryForecast) -> Fix:
    """Whether the forecast was wrong from the first steps on, or more was needed later."""
    if not held:
        return MORE
    return FROM_THE_START if held[0].fact.held > AS_FORECAST * forecast.allocated else GREW


def needed_more(full: DeviceMemoryExhausted, forecast: DeviceMemoryForecast) -> float | None:
    """How many GiB more the tensors needed than was forecast, at least; None if the message does not say."""
    held, asked = gib(full.held), gib(full.requested)
    return held + asked - _gib(forecast.allocated) if held is not None and asked is not None else None


def beside_forecast(
    full: DeviceMemoryExhausted, forecast: DeviceMemoryForecast, held: tuple[Evidence[DeviceMemoryHeld], ...] = ()
) -> str:
    """``; the forecast was 4.10 to 4.60 GiB, ...``: the difference, and the largest part of the forecast."""
    said = f"; the forecast was {_gib(forecast.low):.2f} to {_gib(forecast.high):.2f} GiB"
    capacity = gib(full.capacity)
    if capacity is not None and capacity < _gib(forecast.low):
        said += f", more than these {full.capacity}"
    more = needed_more(full, forecast)
    if more is not None:
        planned = f"the {_gib(forecast.allocated):.2f} GiB in it"
        if more > 0:
            said += f": tensors needed at least {more:.2f} GiB more than {planned}"
        else:
            said += f": tensors needed {-more:.2f} GiB less than {planned} until then"
            if capacity is not None and capacity >= _gib(forecast.high):
                said += ", so other processes or gaps between tensors took the rest"
    if held:
        then = " and ".join(f"{_gib(each.fact.held):.2f} GiB by step {each.fact.steps}" for each in held)
        already = what_differs(held, forecast) is FROM_THE_START
        said += f"; they held {then}, " + ("more than forecast from the start" if already else "as forecast at first")
    if forecast.parts:
        part, bytes_ = max(forecast.parts, key=lambda each: each[1])
        said += f"; its largest part is {part}, {_gib(bytes_):.2f} GiB"
    return said


def _gib(bytes_: int) -> float:
    return bytes_ / (1 << 30)
