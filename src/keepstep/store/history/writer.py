# SPDX-License-Identifier: Apache-2.0
"""Writes the history of one attempt on one host: every second is a tile, and ten of them, sixty, six hundred are one.

    history/HOST-1s-1794990000.tiles     tiles of one second, from this moment on

Files are only appended to, and begun anew after a while; those with fine tiles are removed when they are old. A full
disk stops the recording. Nobody else writes to these files: they carry the host's name.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from keepstep.base.safe_files import append, make_private
from keepstep.signals.blackbox import BoxPhase
from keepstep.store.history.readings import BY_NUMBER, READINGS, Reading, in_phase
from keepstep.store.history.tiles import GPUS, HIGH, HOSTS, LAST, LOW, MEAN, RANKS, Key, Tile, packed

FOLDER = "history"
FILE = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,80})-(?P<width>\d{1,4})s-(?P<start>\d{1,12})\.tiles")
Subject = int | str
Values = Mapping[str, float]


class Level(NamedTuple):
    """Tiles of one width."""

    width_s: int
    file_s: int
    """How long one file is written to."""
    kept_s: float


LEVELS = (Level(1, 300, 900.0), Level(10, 3600, 6 * 3600.0), Level(60, 3600, 3 * 86400.0), Level(600, 86400, math.inf))
_TYPES = {number: each.type for number, each in BY_NUMBER.items()}
_PHASES = [(phase, in_phase(phase)) for phase in BoxPhase]


class _Kept:
    """The values of one reading of one subject in one tile."""

    __slots__ = ("high", "last", "low", "sum", "weight")

    def __init__(self, low: float, mean: float, high: float, last: float, weight: float) -> None:
        self.low, self.high, self.last, self.sum, self.weight = low, high, last, mean * weight, weight

    def add(self, other: _Kept) -> None:
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.last = other.last
        self.sum += other.sum
        self.weight += other.weight


_Subjects = dict[Subject, dict[str, _Kept]]


@dataclass
class _Open:
    """The tile of one level that is not complete yet."""

    level: Level
    start: float = 0.0
    end: float = 0.0
    kinds: dict[int, _Subjects] = field(default_factory=dict)

    def is_of(self, at: float) -> bool:
        """Whether this moment lies in the same tile as the first one did."""
        return not self.kinds or self.start // self.level.width_s == at // self.level.width_s

    def add(self, start: float, end: float, kinds: Mapping[int, _Subjects]) -> None:
        self.start, self.end = (start if not self.kinds else self.start), end
        for kind, subjects in kinds.items():
            known = self.kinds.setdefault(kind, {})
            for subject, values in subjects.items():
                mine = known.setdefault(subject, {})
                for name, value in values.items():
                    if name in mine:
                        mine[name].add(value)
                    else:
                        mine[name] = _Kept(value.low, value.sum / value.weight, value.high, value.last, value.weight)


class HistoryWriter:
    """``add`` about once a second, ``close`` at the end. Never raises because of a file."""

    def __init__(self, folder: Path, host: str) -> None:
        """``folder``: that of the attempt."""
        self._folder = folder / FOLDER
        self._host = re.sub(r"[^A-Za-z0-9._-]", "_", host)[:80] or "host"
        self._open = [_Open(level) for level in LEVELS[1:]]
        self._last: float | None = None
        self._files: dict[int, int] = {}

    def add(
        self,
        at: float,
        ranks: Mapping[int, Values],
        hosts: Mapping[str, Values] | None = None,
        gpus: Mapping[str, Values] | None = None,
    ) -> None:
        """What was measured since the last call, by the names of readings. ``at``: seconds since the epoch."""
        start = self._last if self._last is not None and 0 < at - self._last < 2 * LEVELS[1].width_s else at - 1.0
        self._last = at
        weight = max(at - start, 1e-3)
        given: tuple[tuple[int, Mapping[Subject, Values]], ...] = (
            (RANKS, ranks),  # type: ignore[assignment]
            (HOSTS, hosts or {}),
            (GPUS, gpus or {}),
        )
        kinds: dict[int, _Subjects] = {
            kind: {
                subject: {name: _Kept(value, value, value, value, weight) for name, value in values.items()}
                for subject, values in subjects.items()
            }
            for kind, subjects in given
            if subjects
        }
        self._put(LEVELS[0], start, at, kinds)
        self._add(0, start, at, kinds)

    def _add(self, number: int, start: float, end: float, kinds: dict[int, _Subjects]) -> None:
        """Into the tile of a coarser level; a complete one is written, and goes on to the next level."""
        if number == len(self._open):
            return
        tile = self._open[number]
        if not tile.is_of(start):
            self._write_out(number)
            tile = self._open[number]
        tile.add(start, end, kinds)

    def _write_out(self, number: int) -> None:
        tile = self._open[number]
        self._open[number] = _Open(tile.level)
        if tile.kinds:
            self._put(tile.level, tile.start, tile.end, tile.kinds)
            self._add(number + 1, tile.start, tile.end, tile.kinds)

    def close(self) -> None:
        """Write what is not complete."""
        for number in range(len(self._open)):
            self._write_out(number)

    def discard(self) -> None:
        """Remove what this writer has written."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                if (match := FILE.fullmatch(name)) and match["host"] == self._host:
                    (self._folder / name).unlink(missing_ok=True)
            self._folder.rmdir()

    # --- files

    def _put(self, level: Level, start: float, end: float, kinds: Mapping[int, _Subjects]) -> None:
        fine = level is LEVELS[0]
        tiles = [_tile(start, end - start, kind, subjects, fine=fine) for kind, subjects in kinds.items()]
        begins = int(start // level.file_s * level.file_s)
        with contextlib.suppress(OSError):
            if self._files.get(level.width_s) != begins:
                self._files[level.width_s] = begins
                make_private(self._folder)
                self._remove_old(level, start)
            path = self._folder / f"{self._host}-{level.width_s}s-{begins}.tiles"
            append(path, b"".join(packed(tile, _TYPES) for tile in tiles))

    def _remove_old(self, level: Level, now: float) -> None:
        for name in os.listdir(self._folder):
            match = FILE.fullmatch(name)
            mine = match is not None and match["host"] == self._host and int(match["width"]) == level.width_s
            if match is not None and mine and int(match["start"]) + level.file_s < now - level.kept_s:
                (self._folder / name).unlink(missing_ok=True)


def _tile(start: float, span: float, kind: int, subjects: _Subjects, *, fine: bool) -> Tile:
    """``fine``: of a single measurement, so its values have no spread."""
    names = sorted({name for values in subjects.values() for name in values})
    ordered = sorted(subjects, key=lambda each: (str(type(each)), each))
    columns: dict[Key, list[float]] = {}
    for reading in (READINGS[name] for name in names if name in READINGS):
        values = [subjects[subject].get(reading.name) for subject in ordered]
        for which, number in _WHICH["mean" if fine and reading.kept == "spread" else reading.kept]:
            columns[reading.number, number] = [_value(each, which) for each in values]
    if kind == RANKS and "phase" in names:
        columns[READINGS["phase"].number, LAST] = [_most(subjects[subject]) for subject in ordered]
    return Tile(start, span, kind, ordered, dict(_worth(columns)))  # type: ignore[arg-type]


_WHICH = {
    "spread": (("low", LOW), ("mean", MEAN), ("high", HIGH)),
    "mean": (("mean", MEAN),),
    "last": (("last", LAST),),
}


def _value(kept: _Kept | None, which: str) -> float:
    if kept is None:
        return math.nan
    return kept.sum / kept.weight if which == "mean" else float(getattr(kept, which))


def _most(values: Mapping[str, _Kept]) -> float:
    """The phase with the largest share of the time; else the last one."""
    shares = [(values[name].sum, int(phase)) for phase, name in _PHASES if name in values]
    if shares:
        return float(max(shares)[1])
    return values["phase"].last if "phase" in values else math.nan


def _worth(columns: Mapping[Key, list[float]]) -> list[tuple[Key, list[float]]]:
    """Without those in which no rank has a value, and phases in which none was."""
    found = []
    for key, values in columns.items():
        reading: Reading = BY_NUMBER[key[0]]
        if any(each == each and (each > 0 or reading.kept != "mean") for each in values):
            found.append((key, values))
    return found
