# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` had forecast, corrected by what the first real steps took. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keepstep.base.wording import count, size
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import DeviceMemoryForecast, DeviceMemoryHeld, HostMemoryForecast

STEPS = 2
CLOSE = 0.02
"""A difference of this share is none."""


class MemoryAhead:
    """Says each correction once."""

    def __init__(self, forecasts: Sequence[Evidence[Fact]]) -> None:
        facts = [each.fact for each in forecasts]
        self._device = next((each for each in facts if isinstance(each, DeviceMemoryForecast)), None)
        self._host = next((each for each in facts if isinstance(each, HostMemoryForecast)), None)

    def news(
        self, held: Mapping[int, DeviceMemoryHeld], ranks: Mapping[int | str, Mapping[str, float]]
    ) -> Iterator[str]:
        """``held``: what guards say of their devices. ``ranks``: what was measured of each, by reading."""
        if not ranks:
            return
        if self._device is not None and ranks.keys() <= held.keys():
            forecast, self._device = self._device, None
            most = max(held, key=lambda rank: held[rank].held)
            yield from of_device(forecast, held[most], most)
        if self._host is not None and all(each.get("step", 0) >= STEPS for each in ranks.values()):
            forecast_of_host, self._host = self._host, None
            yield of_host(forecast_of_host, [each["memory"] for each in ranks.values()])


def of_device(forecast: DeviceMemoryForecast, held: DeviceMemoryHeld, rank: int) -> Iterator[str]:
    """The difference, what it makes of the forecast, and whether the longest record will fit."""
    ratio = held.held / max(1, forecast.allocated)
    beside = "as forecast"
    if abs(ratio - 1) > CLOSE:
        side = "more" if ratio > 1 else "less"
        beside = f"{100 * abs(ratio - 1):.0f} % {side} than the {size(forecast.allocated)} forecast"
    words = f"rank {rank}: tensors held at most {size(held.held)} in the first {count(held.steps, 'step')}, {beside}"
    low, high = max(held.taken or 0, held.held), max(int(forecast.high * ratio), held.taken or 0)
    of = f" of {size(held.limit)}" if held.limit else ""
    yield f"{words}; the forecast is now {size(low)} to {size(high)}{of}"
    if forecast.longest is not None and held.limit is not None:
        needs = int(forecast.longest * ratio)
        if needs > held.limit:
            yield (
                f"a batch of the longest records will not fit: it needs {size(needs)}, and rank {rank} may take "
                f"{size(held.limit)}, unless the script cuts or packs them"
            )


def of_host(forecast: HostMemoryForecast, resident: Sequence[float]) -> str:
    """What the processes of the ranks hold together, beside the forecast for as many ranks."""
    low, high = (end / max(1, forecast.ranks) * len(resident) for end in (forecast.low, forecast.high))
    together = sum(resident)
    beside = "within" if low <= together <= high else "more than" if together > high else "less than"
    return (
        f"after {STEPS} steps the processes of {count(len(resident), 'rank')} hold {size(together)} of this host, "
        f"{beside} the {size(low)} to {size(high)} forecast"
    )
