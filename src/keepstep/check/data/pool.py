# SPDX-License-Identifier: Apache-2.0
"""Workers on all cores. One that crashes, takes too much memory or waits too long for a file is ended and replaced."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Iterator

from keepstep.base.wording import duration, size
from keepstep.base.worker_pool import Pool, Worker
from keepstep.check.data.find.mounts import Silent
from keepstep.check.data.process import WAIT_S, Reader, start
from keepstep.check.data.units import Asked, Looked, Unit, looked_from, to_plain, unit_to_list
from keepstep.parse.formats.data.bad import Bad

MOST_MEMORY = 3 << 30
BATCH_FILES, BATCH_BYTES = 64, 32 << 20

Result = tuple[Unit | None, Looked | None, int]
"""A unit with what was found; or nothing, and how many bytes were read meanwhile."""


def _batches(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    some: list[Unit] = []
    total = 0
    for unit in units:
        some.append(unit)
        total += unit.size
        if len(some) >= BATCH_FILES or total >= BATCH_BYTES:
            yield some
            some, total = [], 0
    if some:
        yield some


class ReaderPool(Pool[Unit, Result]):
    """Reads units; results come in the order in which they are ready."""

    def __init__(self, count: int, asked: Asked, *, wait_s: float = WAIT_S, most_memory: int = MOST_MEMORY) -> None:
        super().__init__(count)
        self._asked, self._wait_s, self._most_memory = to_plain(asked), wait_s, most_memory
        self._silent = Silent()

    def read(self, units: Iterable[Unit]) -> Iterator[Result]:
        """Each unit with its result, and between them how many bytes were read meanwhile."""
        return self.results(_batches(units))

    def start(self) -> Worker:
        return start()

    def request(self, tasks: list[Unit]) -> bytes:
        return json.dumps({"asked": self._asked, "units": [unit_to_list(unit) for unit in tasks]}).encode()

    def between(self, message: bytes) -> Result | None:
        return None if message.startswith(b'{"looked"') else (None, None, json.loads(message)["read"])

    def answered(self, task: Unit, message: bytes) -> Result:
        self._silent.answered(task.path)
        return task, looked_from(json.loads(message)["looked"]), 0

    def refused(self, task: Unit) -> Result | None:
        """Files of a dead mount are not tried."""
        why = self._silent.why_not(task.path)
        return (task, Looked("", unread=why), 0) if why else None

    def lost(self, task: Unit, worker: Worker, status: int | None) -> Result:
        assert isinstance(worker, Reader)
        return task, worker.why or _crashed(status), 0

    def is_overdue(self, worker: Worker) -> bool:
        """Whether it takes too much memory or time; the reason is noted."""
        assert isinstance(worker, Reader)
        if worker.memory > self._most_memory:
            worker.why = Looked("", unread=f"reading it takes more than {size(self._most_memory)} of memory")
        elif worker.is_silent(self._wait_s):
            worker.why = Looked("", unreadable=f"no answer for {duration(self._wait_s)}")
            self._silent.gave_none(worker.given[0].path)
        return worker.why is not None


def _crashed(status: int | None) -> Looked:
    """The result of a file whose reader crashed: a training that reads it would crash too."""
    if status is not None and status < 0 and status != -signal.SIGKILL:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return Looked("").broken(Bad("corrupt", f"the library of its format crashed on it ({name})"))
    return Looked("", unread=f"its reader ended unexpectedly (status {status})")
