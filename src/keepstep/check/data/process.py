# SPDX-License-Identifier: Apache-2.0
"""A child process that reads for us, seen from outside: what it says, what it uses, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from keepstep.check.data.units import Looked, Unit

WAIT_S = 60.0
"""How long a worker may neither read nor compute: a mount whose server is gone answers never."""
START_S = 60.0
"""How long its start may take on a busy machine."""
LOOK_EVERY_S = 0.5
_A_LITTLE_S = 0.05
"""Processor time that is no work yet."""
START = "import json,sys; sys.path[:] = json.loads(sys.argv[1]); from keepstep.check.data.worker import main; main()"


@dataclass
class Worker:
    """A child process and what it is doing."""

    process: subprocess.Popen[bytes]
    units: list[Unit] = field(default_factory=list)
    at: int = 0
    why: Looked | None = None
    """Why we ended it."""
    looked_at: float = 0.0
    _started: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _sign_at: float = 0.0
    _worked_s: float = 0.0

    @property
    def out(self) -> Any:
        return self.process.stdout

    def give(self, task: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self._sign_at, self.at = time.monotonic(), 0
        with contextlib.suppress(BrokenPipeError):  # it has ended; that is noticed when it is listened to
            self.process.stdin.write(json.dumps(task).encode() + b"\n")

    def lines(self) -> list[dict[str, Any]] | None:
        """What it said since; None if it has ended."""
        data = os.read(self.out.fileno(), 1 << 20)
        if not data:
            return None
        self._buffer += data
        *whole, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        self._started, self._sign_at = True, time.monotonic()
        return [json.loads(line) for line in whole if line]

    def is_silent(self, wait_s: float) -> bool:
        """Whether it has been silent and idle for too long. To be asked every ``LOOK_EVERY_S``."""
        worked = self._used()[0]
        if worked > self._worked_s + _A_LITTLE_S:
            self._worked_s, self._sign_at = worked, time.monotonic()
        return time.monotonic() - self._sign_at > (wait_s if self._started else max(wait_s, START_S))

    @property
    def memory(self) -> int:
        return self._used()[1]

    def _used(self) -> tuple[float, int]:
        """Processor seconds and bytes of memory."""
        import psutil

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            with process.oneshot():
                used = process.cpu_times()
                return float(used.user + used.system), int(process.memory_info().rss)
        return 0.0, 0

    def end(self) -> int | None:
        """Its status; None if it cannot even be killed: what waits for a dead mount lives until that answers."""
        with contextlib.suppress(OSError):
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(1.0)
        return None


def start() -> Worker:
    """A worker that waits for a task."""
    command = [sys.executable, "-I", "-c", START, json.dumps(sys.path)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    return Worker(
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet, bufsize=0
        )
    )
