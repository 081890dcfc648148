# SPDX-License-Identifier: Apache-2.0
"""Memory, swap, disk and GPUs over time, into a file and onto the status line; and who was killed for memory."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from keepstep.base.proc_stat import ProcStat
from keepstep.base.safe_files import append
from keepstep.model.evidence import EvidenceSet
from keepstep.signals.blackbox import Doing
from keepstep.signals.memory_growth import MemoryReading
from keepstep.sources.host import capacity, nvidia
from keepstep.sources.recorded.memory_series import SCHEMA, readings_of, rose
from keepstep.supervise.watch.device_usage import DeviceUsage, gpu_usage
from keepstep.supervise.watch.hang_detector import Sign
from keepstep.supervise.watch.process_memory import of_tree

OF_ITS_AGE, OF_A_YOUNG_AGE = 200, 10
LEAST_S, MOST_S = 2.0, 30.0
"""Measured whenever the attempt is older by this part, and every half minute: growth shows soon, files stay small.
While no rank shows its steps, growth cannot be told: then more rarely, and a node that only waits costs little."""
RISING_EVERY_S = 30.0
MOST_READINGS, MOST_OF_ALL = 4000, 100_000
"""Of one rank, and of all ranks of this host; then every other one is dropped."""


@dataclass
class Rising:
    """Memory that rises from step to step is reported during the run, once for each rank. Nothing is ended for it."""

    _series: dict[int, list[MemoryReading]] = field(default_factory=dict)
    _left: int | None = None
    _due: float = 0.0
    _told: set[int] = field(default_factory=set)

    def add(self, measured: Mapping[str, Any]) -> None:
        self._left = measured["memory"]["available"]
        found = readings_of(measured)
        most = min(MOST_READINGS, MOST_OF_ALL // max(1, len(found)))
        for rank, reading in found.items():
            series = self._series.setdefault(rank, [])
            series.append(reading)
            if len(series) > most:
                del series[::2]

    def news(self, now: float) -> Iterator[str]:
        """What has not been reported yet, in words. ``now``: seconds of any clock."""
        if now < self._due:
            return
        self._due = now + RISING_EVERY_S
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


@dataclass
class Metrics:
    """What is measured during one attempt. A full disk only ends the writing."""

    path: Path
    watched: tuple[Path, ...]
    """Whose disks are looked at."""
    newest: dict[str, Any] = field(default_factory=dict)
    rising: Rising = field(default_factory=Rising)
    _epochs: dict[int, dict[int, int]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _due: float = 0.0
    gpus: DeviceUsage[nvidia.Usage] = field(default_factory=gpu_usage)

    def tick(
        self,
        roots: Mapping[str, int],
        signs: Sequence[Sign],
        doings: Mapping[int, Doing | None],
        listed: Mapping[int, ProcStat],
    ) -> None:
        """Measure if it is time; ``roots``: the process of each member."""
        for pid, doing in doings.items():
            if doing is not None and doing.epoch is not None and doing.epoch[0] > 0:
                self._epochs.setdefault(pid, {})[doing.epoch[1]] = doing.epoch[0]
        now = time.monotonic()
        if now < self._due:
            return
        age_s, steps = now - self._began, any(sign.phase is not None for sign in signs)
        rarely_s = 0.0 if steps else min(age_s / OF_A_YOUNG_AGE, LEAST_S)
        self._due = now + min(max(age_s / OF_ITS_AGE, rarely_s), MOST_S)
        (total, available), swap = capacity.room(), psutil.swap_memory()
        self.newest = {
            "schema": SCHEMA,
            "at": round(time.time(), 3),
            "memory": {"total": total, "available": available},
            "swap": {"total": swap.total, "used": swap.used},
            "disks": {str(path): free for path in self.watched if (free := _free(path)) is not None},
            "ranks": self._ranks(roots, signs, listed),
        }
        if gpus := self.gpus.newest(now):
            self.newest["gpus"] = [{"index": each.index, "used": each.used, "total": each.total} for each in gpus]
        with contextlib.suppress(OSError):
            append(self.path, f"{json.dumps(self.newest)}\n".encode())
        self.rising.add(self.newest)

    def _ranks(
        self, roots: Mapping[str, int], signs: Sequence[Sign], listed: Mapping[int, ProcStat]
    ) -> dict[str, dict[str, Any]]:
        """By rank; members without one (such as a launcher whose ranks are unknown) by name."""
        found = {}
        for sign in signs:
            if sign.rank is not None:
                found[str(sign.rank)] = of_tree(sign.pid, listed)
                if sign.phase is not None:
                    found[str(sign.rank)] |= {"steps": sign.steps, "epoch": self._epoch(sign.pid)}
        others = {name: pid for name, pid in roots.items() if name not in found and (name.isdecimal() or not found)}
        return found | {name: of_tree(pid, listed) for name, pid in others.items()}

    def _epoch(self, pid: int) -> int | None:
        """Of the data with the most batches: an evaluation has fewer."""
        known = self._epochs.get(pid)
        return known[max(known)] if known else None


@dataclass
class OomCounters:
    """How often the kernel killed for memory in the control groups of the ranks, since each was first seen."""

    _first: dict[Path, int] = field(default_factory=dict)
    _of: dict[int, Path] = field(default_factory=dict)

    def remember(self, pid: int) -> None:
        if pid in self._of:
            return
        path = _events_of(pid)
        if path is not None:
            self._of[pid] = path
            if path not in self._first:
                self._first[path] = _kills(path) or 0

    def risen(self, pid: int) -> tuple[Path, int] | None:
        """The file that counts, and by how much it rose; None if it did not."""
        path = self._of.get(pid)
        if path is None:
            return None
        more = (_kills(path) or 0) - self._first.get(path, 0)
        return (path, more) if more > 0 else None


def _events_of(pid: int) -> Path | None:
    """The file in which the control group of a process counts kills, of either version."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            base, name = (
                (capacity.CGROUPS / "memory", "memory.oom_control")
                if controllers
                else (capacity.CGROUPS, "memory.events")
            )
            relative = Path(group.lstrip("/"))
            for place in (
                relative,
                *relative.parents,
            ):  # a group of our own (control_group.py) counts nothing: the one above does
                if (base / place / name).is_file():
                    return base / place / name
    return None


def _kills(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def _free(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        room = os.statvfs(path)
        return room.f_bavail * room.f_frsize
    return None
