# SPDX-License-Identifier: Apache-2.0
"""What would help: the forecast once more with one thing changed, and the largest batch that fits.

The batch, recomputed activations, bfloat16 and accumulation are tried: the script runs again. What concerns only the
parameters, their gradients and the optimizer's state changes their sizes in the log, which is replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from keepstep.check.memory.devices import Device
from keepstep.check.memory.forecast import Forecast, forecast

Try = Callable[[dict[str, Any], float], dict[str, Any]]
"""Runs the script with a change, for at most so many seconds; what the dry run wrote, or nothing."""
LEAST_SAVING = 0.01
MOST_TRIES = 8
GATHERED = 2
"""Blocks whose parameters are whole at once where they are sharded: the one that computes, and the next."""
RANKS_FOR_SHARDING = 8
_STATE, _WORK = "optimizer state", "optimizer work"


@dataclass(frozen=True, kw_only=True)
class Remedy:
    what: str
    forecast: Forecast
    tried: bool
    """The script ran with it. Otherwise sizes in the log were changed."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    remedies: tuple[Remedy, ...] = ()
    """Those that save anything, the one that needs least first."""
    batch: int | None = None
    """The script's own."""
    largest: int | None = None
    """The largest batch that fits; 0 if not even one record does."""
    next_larger: int | None = None
    """The smallest that was found not to fit surely."""
    untried: tuple[str, ...] = ()


class Search:
    """Tries changes until the time is over."""

    def __init__(self, seen: dict[str, Any], made: Forecast, ranks: int, run: Try, limit_s: float) -> None:
        self._seen, self._made, self._ranks, self._run = seen, made, ranks, run
        self._model = seen.get("model", {})
        self._until = time.monotonic() + limit_s
        self._untried: list[str] = []

    def advice(self) -> Advice:
        batch = self._seen.get("batch", {}).get("size")
        remedies = [*self._tried(batch), *self._replayed()]
        saving = [each for each in remedies if self._saves(each.forecast) > LEAST_SAVING * self._made.high]
        largest, beyond = self._largest_batch(batch) if batch else (None, None)
        return Advice(
            remedies=tuple(sorted(saving, key=lambda each: each.forecast.high)),
            batch=batch,
            largest=largest,
            next_larger=beyond,
            untried=tuple(self._untried),
        )

    def _saves(self, other: Forecast) -> int:
        return self._made.high - other.high

    def _with(self, what: str, change: dict[str, Any]) -> Forecast | None:
        left = self._until - time.monotonic()
        seen = self._run(change, left) if left > 0 else {}
        if seen.get("ended") == "steps":
            return forecast(seen, self._made.device, self._ranks)
        why = f"the dry run failed: {seen['error']}" if seen.get("error") else "the script ended before two steps"
        self._untried.append(f"{what}: {why if seen else 'no time was left'}")
        return None

    # what the script is run with

    def _tried(self, batch: int | None) -> list[Remedy]:
        asked: list[tuple[str, dict[str, Any]]] = []
        if self._model.get("largest_block"):
            asked.append(("activation checkpointing", {"checkpoint": True}))
        if not self._seen.get("autocast") and self._model.get("float32"):
            asked.append(("autocast to bfloat16", {"bfloat16": True}))
        if batch is not None and batch > 1:
            half = {"batch": [batch // 2, batch], "accumulate": True}
            asked.append((f"batch {batch // 2}, accumulated twice", half))
        found = ((what, self._with(what, change)) for what, change in asked)
        return [Remedy(what=what, forecast=made, tried=True) for what, made in found if made is not None]

    # what the log is replayed with

    def _replayed(self) -> list[Remedy]:
        parts = dict(self._made.parts)
        found = []

        def add(what: str, factors: dict[str, float], gathered: int = 0) -> None:
            made = forecast(resized(self._seen, factors, gathered), self._made.device, self._ranks)
            found.append(Remedy(what=what, forecast=self._less(made), tried=False))

        if parts.get("optimizer state"):
            add("optimizer state in 8 bits", {_STATE: 1 / self._model.get("state_element_bytes", 4), _WORK: 0})
            add("optimizer state on the host", {_STATE: 0, _WORK: 0})
            add("SGD without momentum", {_STATE: 0, _WORK: 0})
        if _WORK in self._seen["kinds"].values():
            add("fused optimizer", {_WORK: 0})
        if self._model.get("largest_block") and not self._model.get("sharded"):
            ranks = self._ranks if self._ranks > 1 else RANKS_FOR_SHARDING
            gathered = self._model["outside_blocks"] + GATHERED * self._model["largest_block"]
            share = dict.fromkeys(("parameter", "gradient", _STATE, _WORK), 1 / ranks)
            add(f"FSDP over {ranks} ranks", share, gathered)
        return found

    def _less(self, other: Forecast) -> Forecast:
        """This forecast with what tensors hold in the other: the gaps between them stay what they were."""
        saved = self._made.allocated - other.allocated
        made = self._made
        return replace(
            other, low=made.low - saved, high=made.high - saved, reserved=made.reserved - saved, gets_by=None
        )

    # the largest batch

    def _largest_batch(self, batch: int) -> tuple[int | None, int | None]:
        """The largest that fits and the smallest that does not: both tried, and close to each other if time allows."""
        known = {batch: self._made}
        for _ in range(MOST_TRIES):
            fits = max((n for n, made in known.items() if made.verdict == "fits"), default=0)
            beyond = min((n for n, made in known.items() if made.verdict != "fits"), default=None)
            if beyond is not None and beyond - fits <= max(1, fits // 32):
                break
            wanted = _next_batch(known, fits, beyond, self._made.device)
            made = self._with(f"batch {wanted}", {"batch": [wanted, batch]})
            if made is None or made.high == self._made.high:
                break
            known[wanted] = made
        fits = max((n for n, made in known.items() if made.verdict == "fits"), default=0)
        beyond = min((n for n, made in known.items() if made.verdict != "fits"), default=None)
        return (fits if fits or beyond == 1 else None), beyond


def _next_batch(known: dict[int, Forecast], fits: int, beyond: int | None, device: Device) -> int:
    """Memory grows about as a line: where that line meets the device, kept between what is known."""
    if len(known) > 1:
        (first, a), (second, b) = sorted(known.items(), key=lambda each: abs(each[1].high - device.total))[:2]
        slope = (b.high - a.high) / (second - first)
        guess = first + int((device.total - a.high) / slope) if slope > 0 else 2 * fits
        if beyond is not None and guess >= beyond:
            guess = beyond - 1
        guess = max(guess, fits + 1)
        return min(guess, 16 * max(1, fits)) if beyond is None else guess
    return 2 * fits if beyond is None else max(1, beyond // 2)


def resized(seen: dict[str, Any], factors: dict[str, float], gathered: int = 0) -> dict[str, Any]:
    """The log with storages of some kinds smaller, and ``gathered`` bytes more from the first activation on."""
    kinds = seen["kinds"]
    events: list[tuple[int, int]] = []
    number = max(map(int, kinds), default=-1) + 1
    for each, size in seen["events"]:
        kind = kinds.get(str(each), "")
        if gathered and kind == "activation":
            events.append((number, gathered))
            gathered = 0
        factor = factors.get(kind, 1.0)
        changed = size if each < 0 or factor == 1.0 else int(size * factor)
        if each < 0 or changed:
            events.append((each, changed))
    return {**seen, "events": events, "kinds": {**kinds, str(number): "parameter"}, "sums": {}}
