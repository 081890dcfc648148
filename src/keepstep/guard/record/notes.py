# SPDX-License-Identifier: Apache-2.0
"""The notes of a rank: what its guard learned, a JSON line each, beside the black box.

A line is evidence in the form of :mod:`keepstep.model.codec`; it is written by hand here because the
types behind it are too expensive to import into a training. Lines are queued; the guard's own thread writes them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import append

MOST_BYTES = 16 << 20
LONGEST_LINE = 64 << 10


class Notes:
    """An append-only file. ``add`` never waits; ``flush`` writes the queue."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: deque[dict[str, Any]] = deque(maxlen=4000)
        self._written = 0

    def add(self, fact: str, fields: dict[str, Any], *, rank: int | None, quote: str) -> dict[str, Any]:
        """Note a fact by its class name and fields; ``quote`` is how it reads in a report. Returns the line."""
        line: dict[str, Any] = {"fact": fact, "fields": fields, "origin": {"source": self.path.name}, "at": time.time()}
        if rank is not None:
            line["rank"] = {"index": rank}
        line["quote"] = quote[:1000]
        self._waiting.append(line)
        return line

    def flush(self) -> None:
        """Write what is queued. Raises ``OSError`` where that fails."""
        from keepstep.base.redact import redacted  # costly: imported by the guard's thread, not by the training's

        lines = []
        # until it is empty; a rank that fails writes its last words at the same time as the guard's thread
        with contextlib.suppress(IndexError):
            while True:
                text = json.dumps(redacted(self._waiting.popleft()), default=str)
                if len(text) < LONGEST_LINE:
                    lines.append(text + "\n")
        data = "".join(lines).encode(errors="replace")
        if not data or self._written + len(data) > MOST_BYTES:
            return
        append(self.path, data)
        self._written += len(data)
