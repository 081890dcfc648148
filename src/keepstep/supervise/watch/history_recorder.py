# SPDX-License-Identifier: Apache-2.0
"""Once a second, what every rank and this host show, into the history of the attempt."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from keepstep.base.proc_stat import ProcStat
from keepstep.model.facts.resource import DeviceMemoryHeld
from keepstep.signals.blackbox import BoxPhase, Record
from keepstep.signals.phase_times import MOST_RECORDS, phase_times
from keepstep.sources.host import capacity, nvidia
from keepstep.sources.host.network_counts import NetworkCounts, link_speed, network_counts
from keepstep.store.history.readings import in_phase
from keepstep.store.history.writer import HistoryWriter
from keepstep.supervise.watch.device_usage import DeviceUsage, gpu_usage, tpu_usage
from keepstep.supervise.watch.hang_detector import Sign
from keepstep.supervise.watch.printed_progress import PrintedProgress
from keepstep.supervise.watch.process_memory import of_tree
from keepstep.supervise.watch.vitals import OpenBox

Measurements = dict[str, dict[int | str, dict[str, float]]]
"""By ``rank``, ``host`` and ``gpu``, then by subject and reading."""
EVERY_S = 0.95
DISKS_EVERY_S = 5.0
STILL_S, STILL_STEPS = 2.0, 5
"""A rank that has been in a step for longer than this does not move."""
MOST_OF_ALL = 40_000
"""Records that are read of all boxes for one second."""


class HistoryRecorder:
    """``tick`` whenever the ranks are looked at, ``close`` at the end."""

    def __init__(self, folder: Path, watched: tuple[Path, ...], gpus: DeviceUsage[nvidia.Usage] | None = None) -> None:
        """``folder``: where the attempt is recorded; ``watched``: whose disks are looked at."""
        self._host = socket.gethostname()[:80]
        self._writer = HistoryWriter(folder, self._host)
        self._watched, self._gpus, self._tpus = watched, gpus or gpu_usage(), tpu_usage()
        self._due = self._disks_due = 0.0
        self._disks: dict[str, float] = {}
        self._phases: dict[int, tuple[int, BoxPhase]] = {}
        """By process: until when its box was read, and its phase then."""
        self._busy: dict[int, tuple[Record, float | None]] = {}
        """By process: the last look at its thread, and the share of the time in which that ran or wanted to."""
        self._cpu: dict[int, tuple[float, float]] = {}
        self._limits: dict[int, int | None] = {}
        self._network: tuple[float, NetworkCounts] | None = None
        self._processors: tuple[float, float] | None = None
        self._speeds: dict[str, float | None] = {}
        self._printed = PrintedProgress()
        self.newest: Measurements = {}
        """What was measured last."""

    def tick(
        self,
        signs: Sequence[Sign],
        boxes: Iterable[OpenBox],
        listed: Mapping[int, ProcStat],
        logs: Mapping[int, Path] | None = None,
        held: Mapping[int, DeviceMemoryHeld] | None = None,
    ) -> bool:
        """Measure if it is time; returns whether it was. ``logs``: by rank, where each has one of its own.

        ``held``: what guards say of their devices, by rank.
        """
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + EVERY_S
        by_pid = {box.pid: box for box in boxes}
        if len(signs) == 1 and signs[0].rank is None:  # a program that trains alone has no number
            signs = [replace(signs[0], rank=0)]
        ranks: dict[int | str, dict[str, float]] = {
            sign.rank: self._rank(sign, by_pid.get(sign.pid), listed, logs or {}, MOST_OF_ALL // max(1, len(signs)))
            for sign in signs
            if sign.rank is not None
        }
        for rank, each in (held or {}).items():
            if rank in ranks:
                ranks[rank] |= _of_device(each)
        host = self._of_host(now)
        gpus: dict[int | str, dict[str, float]] = {
            f"{self._host} {device}": values for device, values in (*self._of_gpus(now), *self._of_tpus(now))
        }
        self.newest = {"rank": ranks, "host": {self._host: host}, "gpu": gpus}
        self._writer.add(time.time(), ranks, {self._host: host}, gpus)  # type: ignore[arg-type]
        return True

    def close(self) -> None:
        self._writer.close()

    def discard(self) -> None:
        """The ranks went elsewhere: leave nothing."""
        self._writer.discard()

    # --- ranks

    def _rank(
        self, sign: Sign, box: OpenBox | None, listed: Mapping[int, ProcStat], logs: Mapping[int, Path], most: int
    ) -> dict[str, float]:
        pid, found = sign.pid, {"memory": float(of_tree(sign.pid, listed)["rss"])}
        before = self._cpu.get(pid)
        if before is not None and sign.at > before[0]:
            found["cpu"] = max(0.0, sign.cpu_s - before[1]) / (sign.at - before[0])
        self._cpu[pid] = sign.at, sign.cpu_s
        with contextlib.suppress(OSError):
            found["files"] = float(len(os.listdir(f"/proc/{pid}/fd")))
            limit = self._limit(pid)
            if limit:
                found["files_share"] = found["files"] / limit
        log = logs.get(sign.rank) if sign.rank is not None else None
        loss = self._printed.look(log, sign.at) if log is not None else None
        if loss is not None:
            found["loss"] = loss
        left_s = self._printed.left_s(log, sign.at) if log is not None else None
        if left_s is not None:
            found["left_s"] = left_s
        if sign.phase is not None and box is not None:
            found |= self._of_box(sign, box, min(most, MOST_RECORDS))
        return found

    def _of_box(self, sign: Sign, box: OpenBox, most: int) -> dict[str, float]:
        until = int(sign.at * 1e9)
        since, phase = self._phases.get(sign.pid, (until - int(1e9), BoxPhase.START))
        times = phase_times(box.newest_first(), since, until, phase, most=max(most, 100))
        self._phases[sign.pid] = until, times.last
        whole = sum(times.spent.values()) or 1
        quiet_s = sign.at - sign.progress if sign.progress is not None else 0.0
        found = {in_phase(each): spent / whole for each, spent in times.spent.items()}
        found |= {"phase": float(times.last), "step": float(sign.steps), "quiet_s": max(0.0, quiet_s)}
        last, busy = self._busy.get(sign.pid, (times.held, None))
        if times.held is not None and last is not None:
            if times.held.at > last.at:
                used = times.held.value + times.held.extra - last.value - last.extra
                busy = min(max(used / (times.held.at - last.at), 0.0), 1.0)
            self._busy[sign.pid] = times.held, busy
        if busy is not None:
            found["busy"] = busy
        if times.steps:
            found["step_s"] = sum(times.steps) / len(times.steps) / 1e9
        still = sign.is_stepping and not sign.between and quiet_s > max(STILL_S, STILL_STEPS * (sign.usual_s or 0.0))
        found["wait"] = 1.0 if still else times.spent.get(BoxPhase.INPUT, 0) / whole
        return found

    def _limit(self, pid: int) -> int | None:
        if pid not in self._limits:
            self._limits[pid] = None
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/limits") as stream:
                line = next((each for each in stream if each.startswith("Max open files")), "")
                self._limits[pid] = int(line.split()[3])
        return self._limits[pid]

    # --- this host

    def _of_host(self, now: float) -> dict[str, float]:
        total, available = capacity.room()
        found = {"host_memory": float(total - available), "host_memory_share": 1 - available / max(total, 1)}
        with contextlib.suppress(OSError):
            found["swap"] = float(psutil.swap_memory().used)
        busy = self._of_processors()
        if busy is not None:
            found["host_cpu"] = busy
        found |= self._of_network(now)
        if now >= self._disks_due:
            self._disks_due = now + DISKS_EVERY_S
            self._disks = self._of_disks()
        return found | self._disks

    def _of_disks(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for path in self._watched:
            with contextlib.suppress(OSError):
                room = os.statvfs(path)
                free, usable = room.f_bavail, room.f_bavail + room.f_blocks - room.f_bfree
                share = 1 - free / max(usable, 1)
                if share >= found.get("disk_share", -1.0):
                    found["disk_share"], found["disk_free"] = share, float(free * room.f_frsize)
        shm = capacity.shared_memory()
        if shm is not None and shm.total:
            found["shm_share"] = 1 - shm.free / shm.total
        return found

    def _of_processors(self) -> float | None:
        """The busy share since the last call."""
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat", "rb") as stream:
            ticks = [float(each) for each in stream.readline().split()[1:9]]
            whole, idle = sum(ticks), ticks[3] + ticks[4]
            before, self._processors = self._processors, (whole, idle)
            if before is not None and whole > before[0]:
                return min(max(1 - (idle - before[1]) / (whole - before[0]), 0.0), 1.0)
        return None

    def _of_network(self, now: float) -> dict[str, float]:
        counts = network_counts()
        before, self._network = self._network, (now, counts)
        if before is None or now <= before[0]:
            return {}
        took, old = now - before[0], before[1]
        found = {"net_in": 0.0, "net_out": 0.0, "net_drops": 0.0}
        for name, device in counts.devices.items():
            was = old.devices.get(name, device)
            received, sent = (max(0, device.received - was.received) / took, max(0, device.sent - was.sent) / took)
            found["net_in"] += received
            found["net_out"] += sent
            found["net_drops"] += max(0, device.dropped - was.dropped) / took
            if name not in self._speeds:
                self._speeds[name] = link_speed(name)
            speed = self._speeds[name]
            if speed:
                found["net_share"] = max(found.get("net_share", 0.0), max(received, sent) / speed)
        segments = counts.segments - old.segments
        found["net_retransmits"] = min(max(0, counts.again - old.again) / segments, 1.0) if segments > 0 else 0.0
        return found

    def _of_gpus(self, now: float) -> Iterable[tuple[str, dict[str, float]]]:
        for each in self._gpus.newest(now):
            share = each.used / each.total if each.used is not None and each.total else None
            values = {
                "gpu_busy": each.busy,
                "gpu_memory": each.used,
                "gpu_memory_share": share,
                "gpu_celsius": each.celsius,
                "gpu_ecc": each.uncorrected,
            }
            yield f"gpu{each.index}", {name: float(value) for name, value in values.items() if value is not None}

    def _of_tpus(self, now: float) -> Iterable[tuple[str, dict[str, float]]]:
        for each in self._tpus.newest(now):
            share = each.used / each.total if each.used is not None and each.total else None
            values = {"tpu_busy": each.busy, "tpu_memory": each.used, "tpu_memory_share": share}
            yield f"tpu{each.index}", {name: float(value) for name, value in values.items() if value is not None}


def most_left(measured: Mapping[str, Mapping[int | str, Mapping[str, float]]]) -> float | None:
    """How long the training will still take, by the rank that says the most; None where none prints how far it is."""
    return max((each["left_s"] for each in measured.get("rank", {}).values() if "left_s" in each), default=None)


def _of_device(said: DeviceMemoryHeld) -> dict[str, float]:
    found = {"device_memory": float(said.held)}
    return {**found, "device_memory_share": said.held / said.limit} if said.limit else found
