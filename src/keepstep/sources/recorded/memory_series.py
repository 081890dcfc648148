# SPDX-License-Identifier: Apache-2.0
"""What `keepstep run` measured of each rank's memory during training (``metrics.jsonl``), as evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.whole_numbers import whole
from keepstep.base.wording import count, size
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import MemoryLow, MemoryRose
from keepstep.model.identity import Rank
from keepstep.signals.memory_growth import MemoryReading, rises
from keepstep.sources.files.left_files import LeftFile

SCHEMA = "keepstep.metrics/1"
MOST_BYTES = 64 << 20
LOW = 0.05
"""Share of the memory: with less left, the kernel begins to kill."""


def read_metrics(files: Iterable[LeftFile]) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """The ranks whose memory rose, for each file."""
    found: list[Evidence[Fact]] = []
    coverage: list[Coverage] = []
    for left in files:
        try:
            with left.open() as stream:
                lines = stream.read(MOST_BYTES).decode(errors="replace").split("\n")
        except OSError as error:
            coverage.append(
                Coverage(what=left.name, state=CoverageState.UNAVAILABLE, why=error.strerror or "it cannot be read")
            )
            continue
        series: defaultdict[int, list[MemoryReading]] = defaultdict(list)
        free: int | None = None
        damaged = 0
        last: tuple[float, int, int] | None = None
        for line in filter(None, lines):
            try:
                measured = foreign_json.loads(line)
                at, memory = _number(measured["at"]), measured["memory"]
                for rank, reading in readings_of(measured).items():
                    series[rank].append(reading)
                if memory:
                    free = int(_number(memory["available"]))
                    last = at, free, int(_number(memory["total"]))
            except (ValueError, TypeError, KeyError, AttributeError):
                damaged += 1
        damaged -= bool(lines[-1])  # it may have been half written
        if damaged > 0:
            coverage.append(
                Coverage(
                    what=f"{count(damaged, 'line')} of {left.name}", state=CoverageState.UNAVAILABLE, why="damaged"
                )
            )
        found += rose(series, left.name, free)
        if last is not None and last[1] < LOW * last[2]:
            at, left_bytes, total = last
            quote = f"{size(left_bytes)} of {size(total)} of memory were left at the last measurement"
            low = MemoryLow(left_bytes=left_bytes, total_bytes=total)
            found.append(Evidence(fact=low, origin=Origin(source=left.name), at=at, quote=quote))
    return found, coverage


def readings_of(measured: Mapping[str, Any]) -> dict[int, MemoryReading]:
    """The readings in one line, of the ranks whose steps are known."""
    at = _number(measured["at"])
    return {
        int(name): MemoryReading(
            at, each["steps"], each["own"], epoch if _is_count(epoch := each.get("epoch")) else None
        )
        for name, each in measured["ranks"].items()
        if whole(name) is not None and _is_count(each.get("steps")) and _is_count(each.get("own"))
    }


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 1 << 63:
        raise ValueError("not a number that can be measured")
    return float(value)


def rose(series: Mapping[int, Sequence[MemoryReading]], source: str, free: int | None) -> list[Evidence[Fact]]:
    """Every rank whose memory rises, as evidence."""
    found: list[Evidence[Fact]] = []
    for rank, rise in rises(series).items():
        fact = MemoryRose(
            began_bytes=rise.first.bytes,
            now_bytes=rise.last.bytes,
            steps=rise.steps,
            seconds=round(rise.seconds, 1),
            epochs_before=rise.epochs_before,
            epochs=rise.epochs,
            others_bytes=rise.others,
            left_bytes=free,
        )
        rose = f"from {size(rise.first.bytes)} to {size(rise.last.bytes)}"
        quote = f"memory of rank {rank} rose {rose} in {count(rise.steps, 'step')}"
        found.append(
            Evidence(fact=fact, origin=Origin(source=source), rank=Rank(index=rank), at=rise.last.at, quote=quote)
        )
    return found
