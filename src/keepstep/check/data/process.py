# SPDX-License-Identifier: Apache-2.0
"""A child process that reads for us, seen from outside: what it says, what it uses, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

from keepstep.base.worker_pool import Worker
from keepstep.check.data.units import UnitRead

WAIT_S = 60.0
"""How long a worker may neither read nor compute: a mount whose server is gone answers never."""
START_S = 60.0
"""How long its start may take on a busy machine."""
_A_LITTLE_S = 0.05
"""Processor time that is no work yet."""
START = "import json,sys; sys.path[:] = json.loads(sys.argv[1]); from keepstep.check.data.worker import main; main()"


class Reader(Worker):
    """A worker that is watched for signs of life and for the memory that it takes."""

    why: UnitRead | None = None
    """Why we ended it."""
    _worked_s = 0.0

    def is_silent(self, wait_s: float) -> bool:
        """Whether it has been silent and idle for too long. To be asked every ``LOOK_EVERY_S``."""
        worked = self._used()[0]
        if worked > self._worked_s + _A_LITTLE_S:
            self._worked_s, self.since = worked, time.monotonic()
        return time.monotonic() - self.since > (wait_s if self.has_spoken else max(wait_s, START_S))

    @property
    def memory(self) -> int:
        return self._used()[1]

    def _used(self) -> tuple[float, int]:
        """Processor seconds and bytes of memory."""
        import psutil

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            with process.oneshot():
                used = process.cpu_times()
                return float(used.user + used.system), int(process.memory_info().rss)
        return 0.0, 0


def start() -> Reader:
    """A worker that waits for a task."""
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    if not all(map(os.path.isabs, os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep))):
        quiet["HDF5_PLUGIN_PRELOAD"] = "::"  # a file names the plug-in it needs: none is loaded from just anywhere
    return Reader.run([sys.executable, "-I", "-c", START, json.dumps(sys.path)], env=quiet)
