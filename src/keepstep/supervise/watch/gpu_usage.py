# SPDX-License-Identifier: Apache-2.0
"""How much the GPUs of this host are used, asked now and then from a thread of its own: nvidia-smi may take seconds."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.sources.host import nvidia

EVERY_S = 15.0


@dataclass
class GpuUsage:
    """``newest`` never waits."""

    _due: float = 0.0
    _found: list[nvidia.Usage] = field(default_factory=list)
    _asking: threading.Thread | None = None

    def newest(self, now: float) -> list[nvidia.Usage]:
        """The last answer; asks again if that is old. ``now``: seconds of any clock."""
        if now >= self._due and (self._asking is None or not self._asking.is_alive()):
            self._due = now + EVERY_S if Path("/dev/nvidiactl").exists() else float("inf")
            if self._due < float("inf"):
                self._asking = threading.Thread(target=self._ask, daemon=True)
                self._asking.start()
        return self._found

    def _ask(self) -> None:
        with contextlib.suppress(Exception):
            self._found = nvidia.usage() or []
