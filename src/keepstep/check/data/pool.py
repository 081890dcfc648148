# SPDX-License-Identifier: Apache-2.0
"""Workers on all cores. One that crashes, takes too much memory or waits too long for a file is ended and replaced."""

from __future__ import annotations

import contextlib
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from keepstep.base.wording import duration, size
from keepstep.check.data.mounts import Silent
from keepstep.check.data.process import LOOK_EVERY_S, WAIT_S, Worker, start
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


class Pool:
    """Reads units; results come in the order in which they are ready."""

    def __init__(self, count: int, asked: Asked, *, wait_s: float = WAIT_S, most_memory: int = MOST_MEMORY) -> None:
        self._count, self._asked = max(1, count), asked
        self._wait_s, self._most_memory = wait_s, most_memory
        self._workers: list[Worker] = []
        self._again: deque[list[Unit]] = deque()
        self._batches: Iterator[list[Unit]] = iter(())
        self._silent = Silent()

    def read(self, units: Iterable[Unit]) -> Iterator[Result]:
        """Each unit with its result, and between them how many bytes were read meanwhile."""
        self._batches = _batches(units)
        with selectors.DefaultSelector() as ready:
            try:
                for _ in range(self._count):
                    yield from self._employ(ready)
                while self._workers:
                    for key, _ in ready.select(LOOK_EVERY_S):
                        yield from self._hear(key.data, ready)
                    for worker in list(self._workers):
                        if self._is_past_waiting(worker):
                            yield from self._died(worker, ready)
                            yield from self._employ(ready)
            finally:
                for worker in self._workers:
                    worker.end()
                self._workers.clear()

    def _employ(self, ready: selectors.BaseSelector, worker: Worker | None = None) -> Iterator[Result]:
        """Work for a worker, or for a new one; without work there is none. Files of a dead mount are not tried."""
        for some in chain(iter(lambda: self._again.popleft() if self._again else None, None), self._batches):
            wanted = []
            for unit in some:
                if why := self._silent.why_not(unit.path):
                    yield unit, Looked("", unread=why), 0
                else:
                    wanted.append(unit)
            if not wanted:
                continue
            if worker is None:
                worker = start()
                self._workers.append(worker)
                ready.register(worker.out, selectors.EVENT_READ, worker)
            worker.units = wanted
            worker.give({"asked": to_plain(self._asked), "units": [unit_to_list(unit) for unit in wanted]})
            return
        if worker is not None:
            self._dismiss(worker, ready)
            worker.end()

    def _dismiss(self, worker: Worker, ready: selectors.BaseSelector) -> None:
        ready.unregister(worker.out)
        self._workers.remove(worker)

    def _hear(self, worker: Worker, ready: selectors.BaseSelector) -> Iterator[Result]:
        said = worker.lines()
        if said is None:
            yield from self._died(worker, ready)
            yield from self._employ(ready)
            return
        for each in said:
            if "read" in each:
                yield None, None, int(each["read"])
            elif "done" in each:
                unit = worker.units[each["done"]]
                worker.at = each["done"] + 1
                self._silent.answered(unit.path)
                yield unit, looked_from(each["looked"]), 0
        if worker.at == len(worker.units):
            yield from self._employ(ready, worker)

    def _died(self, worker: Worker, ready: selectors.BaseSelector) -> Iterator[Result]:
        self._dismiss(worker, ready)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(1.0)
        status = worker.process.returncode if worker.process.returncode is not None else worker.end()
        if worker.at < len(worker.units):
            yield worker.units[worker.at], worker.why or _crashed(status), 0
            if rest := worker.units[worker.at + 1 :]:
                self._again.append(rest)

    def _is_past_waiting(self, worker: Worker) -> bool:
        """Whether it takes too much memory or time; then it is killed, and the reason noted."""
        now = time.monotonic()
        if now - worker.looked_at < LOOK_EVERY_S:
            return False
        worker.looked_at = now
        if worker.memory > self._most_memory:
            worker.why = Looked("", unread=f"reading it takes more than {size(self._most_memory)} of memory")
        elif worker.is_silent(self._wait_s):
            worker.why = Looked("", unreadable=f"no answer for {duration(self._wait_s)}")
            self._silent.gave_none(worker.units[worker.at].path)
        else:
            return False
        with contextlib.suppress(OSError):
            worker.process.kill()
        return True


def _crashed(status: int | None) -> Looked:
    """The result of a file whose reader crashed: a training that reads it would crash too."""
    if status is not None and status < 0 and status != -signal.SIGKILL:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return Looked("").broken(Bad("corrupt", f"the library of its format crashed on it ({name})"))
    return Looked("", unread=f"its reader ended unexpectedly (status {status})")
