# SPDX-License-Identifier: Apache-2.0
"""How much the GPUs or TPUs of this host are used, asked now and then from a thread of its own: it may take seconds."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from keepstep.sources.host import nvidia, tpu
from keepstep.sources.host.capacity import uses_tpu

EVERY_S = 15.0
Usage = TypeVar("Usage")


@dataclass
class DeviceUsage(Generic[Usage]):
    """``newest`` never waits."""

    are_there: Callable[[], bool]
    """Whether to ask at all."""
    ask: Callable[[], list[Usage] | None]
    _due: float = 0.0
    _found: list[Usage] = field(default_factory=list)
    _asking: threading.Thread | None = None

    def newest(self, now: float) -> list[Usage]:
        """The last answer; asks again if that is old. ``now``: seconds of any clock."""
        if now >= self._due and (self._asking is None or not self._asking.is_alive()):
            self._due = now + EVERY_S if self.are_there() else float("inf")
            if self._due < float("inf"):
                self._asking = threading.Thread(target=self._ask, daemon=True)
                self._asking.start()
        return self._found

    def _ask(self) -> None:
        with contextlib.suppress(Exception):
            self._found = self.ask() or []


def gpu_usage() -> DeviceUsage[nvidia.Usage]:
    return DeviceUsage(Path("/dev/nvidiactl").exists, nvidia.usage)


def tpu_usage() -> DeviceUsage[tpu.TpuUsage]:
    return DeviceUsage(lambda: uses_tpu(os.environ), tpu.usage)
