# SPDX-License-Identifier: Apache-2.0
"""Memory that rises from step to step is reported during the run, once for each rank. Nothing is ended for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keepstep.core.evidence import EvidenceSet
from keepstep.core.growth import Reading
from keepstep.sources.memory_series import readings_of, rose

LOOK_S = 30.0
MOST = 4000
"""Readings of a rank; then every other one is forgotten."""


@dataclass
class Rising:
    _series: dict[int, list[Reading]] = field(default_factory=dict)
    _left: int | None = None
    _due: float = 0.0
    _told: set[int] = field(default_factory=set)

    def add(self, measured: Mapping[str, Any]) -> None:
        self._left = measured["memory"]["available"]
        for rank, reading in readings_of(measured).items():
            series = self._series.setdefault(rank, [])
            series.append(reading)
            if len(series) > MOST:
                del series[::2]

    def news(self, now: float) -> Iterator[str]:
        """What was not told yet, in words. ``now``: seconds of any clock."""
        if now < self._due:
            return
        self._due = now + LOOK_S
        found = rose(self._series, "metrics.jsonl", self._left)
        if not found:
            return
        from keepstep.rules.resource.memory_rising import memory_rising

        with contextlib.suppress(StopIteration):
            finding = next(iter(memory_rising.find(EvidenceSet(items=tuple(found)))))
            new = {each.who for each in finding.evidence if each.who is not None} - self._told
            if new:
                self._told |= new
                yield f"{finding.title}: {finding.because}"
