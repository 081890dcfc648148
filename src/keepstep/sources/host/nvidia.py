# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA GPUs of this host, by their driver's own tool. Needs nothing but the standard library."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from keepstep.model.facts.host import GpuSeen
from keepstep.sources.host.this_host import hides_its_gpus

NVIDIA_SMI_LIMIT_S = 10.0
SLOWED = {
    "hw_slowdown": "a hardware slowdown (power or heat)",
    "hw_thermal_slowdown": "a hardware slowdown because of heat",
    "sw_thermal_slowdown": "a slowdown by the driver because of heat",
    "hw_power_brake_slowdown": "a slowdown because the power supply asks for it",
}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Temperature, error counts and slowdown of one GPU. None: the driver does not say."""

    index: int
    uuid: str
    celsius: int | None = None
    corrected: int | None = None
    uncorrected: int | None = None
    slowed: str | None = None


def readings() -> list[Reading] | None:
    """One for each GPU; None where the driver cannot be asked."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    counts = "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"
    for word in ("clocks_event_reasons", "clocks_throttle_reasons"):  # newer drivers, older ones
        reasons = ",".join(f"{word}.{name}" for name in SLOWED)
        rows = _ask(tool, f"--query-gpu=index,uuid,temperature.gpu,{counts},{reasons}")
        if rows is not None:
            return [_reading(row) for row in rows if len(row) == 5 + len(SLOWED) and row[0].isdecimal()]
    return None


def _reading(row: list[str]) -> Reading:
    celsius, corrected, uncorrected = (int(cell) if cell.isdecimal() else None for cell in row[2:5])
    slowed = [words for words, cell in zip(SLOWED.values(), row[5:], strict=True) if cell == "Active"]
    return Reading(
        index=int(row[0]),
        uuid=row[1],
        celsius=celsius,
        corrected=corrected,
        uncorrected=uncorrected,
        slowed=slowed[-1] if slowed else None,
    )


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much one GPU is used. Memory in bytes; None: the driver does not say."""

    index: int
    busy: float | None = None
    """The share of the last moments in which a kernel ran."""
    used: int | None = None
    total: int | None = None
    celsius: int | None = None
    uncorrected: int | None = None


def usage() -> list[Usage] | None:
    """One for each GPU; None where the driver cannot be asked."""
    tool = shutil.which("nvidia-smi")
    counted = "ecc.errors.uncorrected.volatile.total"
    asked = f"--query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,{counted}"
    rows = _ask(tool, asked) if tool is not None else None
    if rows is None:
        return None
    found = []
    for row in rows:
        if len(row) == 6 and row[0].isdecimal():
            index, busy, used, total, celsius, errors = (int(cell) if cell.isdecimal() else None for cell in row)
            found.append(
                Usage(
                    index=index or 0,
                    busy=busy / 100 if busy is not None else None,
                    used=used << 20 if used is not None else None,
                    total=total << 20 if total is not None else None,
                    celsius=celsius,
                    uncorrected=errors,
                )
            )
    return found


def gpus() -> tuple[list[GpuSeen], str | None]:
    """The NVIDIA GPUs, by their driver's own tool, and why they could not be asked. None for a run without GPUs."""
    if not Path("/dev/nvidiactl").exists() or hides_its_gpus():
        return [], None
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], "nvidia-smi is not installed"
    asked = "index,uuid,name,memory.total,memory.used,ecc.errors.uncorrected.volatile.total"
    asked += ",clocks_throttle_reasons.hw_slowdown"
    rows = _ask(tool, f"--query-gpu={asked}")
    if rows is None:
        return [], "nvidia-smi does not answer"
    held: dict[str, list[str]] = {}
    for row in _ask(tool, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory") or []:
        if len(row) == 4 and row[1] != str(os.getpid()):
            held.setdefault(row[0], []).append(f"{Path(row[2]).name} (pid {row[1]}, {row[3]} MiB)")
    found = []
    for row in rows:
        with contextlib.suppress(ValueError, IndexError):
            found.append(
                GpuSeen(
                    index=int(row[0]),
                    name=row[2],
                    total=int(row[3]) << 20,
                    used=int(row[4]) << 20,
                    others=tuple(held.get(row[1], ())),
                    uncorrected_errors=int(row[5]) if row[5].isdecimal() else 0,
                    throttled="a hardware slowdown (power or heat)" if row[6].strip() == "Active" else None,
                )
            )
    return found, None


def _ask(tool: str, question: str) -> list[list[str]] | None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [tool, question, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_LIMIT_S,
        )
        if done.returncode == 0:
            return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    return None
