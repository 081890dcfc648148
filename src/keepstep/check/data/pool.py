# SPDX-License-Identifier: Apache-2.0
"""Workers on all cores. One that crashes, takes too much memory or waits too long for a file is ended and replaced."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Iterator

from keepstep.base.wording import duration, size
from keepstep.base.worker_pool import Worker, WorkerPool
from keepstep.check.data.find.mounts import SilentMount
from keepstep.check.data.process import WAIT_S, Reader, start
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead, looked_from, to_plain, unit_to_list
from keepstep.parse.formats.data.bad import Bad

MOST_MEMORY = 3 << 30
BATCH_FILES, BATCH_BYTES = 64, 32 << 20

Result = tuple[DataUnit | None, UnitRead | None, int]
"""A unit with what was found; or nothing, and how many bytes were read meanwhile."""


def _batches(units: Iterable[DataUnit]) -> Iterator[list[DataUnit]]:
    some: list[DataUnit] = []
    total = 0
    for unit in units:
        some.append(unit)
        total += unit.size
        if len(some) >= BATCH_FILES or total >= BATCH_BYTES:
            yield some
            some, total = [], 0
    if some:
        yield some


class ReaderPool(WorkerPool[DataUnit, Result]):
    """Reads units; results come in the order in which they are ready."""

    def __init__(
        self, count: int, asked: ReadRequest, *, wait_s: float = WAIT_S, most_memory: int = MOST_MEMORY
    ) -> None:
        super().__init__(count)
        self._asked, self._wait_s, self._most_memory = to_plain(asked), wait_s, most_memory
        self._silent = SilentMount()

    def read(self, units: Iterable[DataUnit]) -> Iterator[Result]:
        """Each unit with its result, and between them how many bytes were read meanwhile."""
        return self.results(_batches(units))

    def start(self) -> Worker:
        return start()

    def request(self, tasks: list[DataUnit]) -> bytes:
        return json.dumps({"asked": self._asked, "units": [unit_to_list(unit) for unit in tasks]}).encode()

    def between(self, message: bytes) -> Result | None:
        return None if message.startswith(b'{"looked"') else (None, None, json.loads(message)["read"])

    def answered(self, task: DataUnit, message: bytes) -> Result:
        self._silent.answered(task.path)
        return task, looked_from(json.loads(message)["looked"]), 0

    def refused(self, task: DataUnit) -> Result | None:
        """Files of a dead mount are not tried."""
        why = self._silent.why_not(task.path)
        return (task, UnitRead("", unread=why), 0) if why else None

    def lost(self, task: DataUnit, worker: Worker, status: int | None) -> Result:
        assert isinstance(worker, Reader)
        return task, worker.why or _crashed(status), 0

    def is_overdue(self, worker: Worker) -> bool:
        """Whether it takes too much memory or time; the reason is noted."""
        assert isinstance(worker, Reader)
        if worker.memory > self._most_memory:
            worker.why = UnitRead("", unread=f"reading it takes more than {size(self._most_memory)} of memory")
        elif worker.is_silent(self._wait_s):
            worker.why = UnitRead("", unreadable=f"no answer for {duration(self._wait_s)}")
            self._silent.gave_none(worker.given[0].path)
        return worker.why is not None


def _crashed(status: int | None) -> UnitRead:
    """The result of a file whose reader crashed: a training that reads it would crash too."""
    if status is not None and status < 0 and status != -signal.SIGKILL:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return UnitRead("").broken(Bad("corrupt", f"the library of its format crashed on it ({name})"))
    return UnitRead("", unread=f"its reader ended unexpectedly (status {status})")
