# SPDX-License-Identifier: Apache-2.0
"""The most that this rank's tensors have held of its device: noted after two steps, and whenever it has risen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from keepstep.base.wording import count, size
from keepstep.guard.protocols import Reports, Schedule

PART = "memory of the device"
LOOK_S = 1.0
STEPS = 2
"""Optimizers make their state in the first step: only the second shows what a step needs."""
STAIR = 0.005
"""Of the device: a rise by less is not noted."""
Read = Callable[[], tuple[int, int | None, int] | None]
"""The most bytes that tensors held and the allocator took, and what the process may take; None without a device."""


class Holds(Reports, Protocol):
    """Reports, and the guard's own thread."""

    @property
    def pulse(self) -> Schedule: ...


class DeviceMemory:
    """The framework's own count, read by the guard's thread."""

    def __init__(self, session: Holds, read: Read) -> None:
        self._session, self._read = session, read
        self._noted: int | None = None

    def watch(self) -> None:
        self._session.pulse.every(LOOK_S, PART, self.look)

    def look(self) -> None:
        steps = self._session.steps
        found = self._read() if steps >= STEPS else None
        if found is None:
            return
        held, taken, limit = found
        if self._noted is None or held >= self._noted + STAIR * limit:
            self._noted = held
            words = f"tensors held at most {size(held)} of {size(limit)} after {count(steps, 'step')}"
            self._session.note(
                "DeviceMemoryHeld", {"steps": steps, "held": held, "taken": taken, "limit": limit}, words
            )
