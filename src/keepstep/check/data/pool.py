# SPDX-License-Identifier: Apache-2.0
"""Workers on all cores. One that crashes, takes too much memory or waits too long for a file is ended and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from keepstep.check.data.units import Asked, Looked, Unit, looked_from, to_plain
from keepstep.check.data.walk import Left
from keepstep.core.codec import build
from keepstep.core.wording import duration, size
from keepstep.errors import Unavailable
from keepstep.parse.formats.data.bad import Bad

WAIT_S = 60.0
"""How long a worker may neither read nor compute: a mount whose server is gone answers never."""
MOST_MEMORY = 3 << 30
LOOK_EVERY_S = 0.5
BATCH_FILES, BATCH_BYTES = 64, 32 << 20
_START = "import json,sys; sys.path[:] = json.loads(sys.argv[1]); from keepstep.check.data.worker import main; main()"


@dataclass
class _Worker:
    """A child process and what it is doing."""

    process: subprocess.Popen[bytes]
    units: list[Unit] = field(default_factory=list)
    at: int = 0
    buffer: bytearray = field(default_factory=bytearray)
    sign_at: float = 0.0
    worked_s: float = 0.0
    looked_at: float = 0.0
    why: Looked | None = None
    """Why we ended it."""

    @property
    def out(self) -> Any:
        return self.process.stdout

    def give(self, task: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.sign_at, self.at = time.monotonic(), 0
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.flush()

    def lines(self) -> list[dict[str, Any]] | None:
        """What it said since; None if it has ended."""
        data = os.read(self.out.fileno(), 1 << 20)
        if not data:
            return None
        self.buffer += data
        *whole, rest = bytes(self.buffer).split(b"\n")
        self.buffer[:] = rest
        self.sign_at = time.monotonic()
        return [json.loads(line) for line in whole if line]


def _start() -> _Worker:
    command = [sys.executable, "-I", "-c", _START, json.dumps(sys.path)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    return _Worker(
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet, bufsize=0
        )
    )


def _end(worker: _Worker) -> int | None:
    """Its status; None if it cannot even be killed: a process that waits for a dead mount lives until it answers."""
    with contextlib.suppress(OSError):
        worker.process.kill()
    for stream in (worker.process.stdin, worker.process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return worker.process.wait(1.0)
    return None


def _working_s(pid: int) -> float:
    """The processor time a worker has used."""
    import psutil

    with contextlib.suppress(psutil.Error):
        used = psutil.Process(pid).cpu_times()
        return float(used.user + used.system)
    return 0.0


def _memory(pid: int) -> int:
    import psutil

    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def find_units(paths: list[str], wait_s: float = WAIT_S) -> tuple[list[Unit], list[Left]]:
    """Everything below the paths. A file system that does not answer is reported and not waited for."""
    worker = _start()
    units: list[Unit] = []
    left: list[Left] = []
    try:
        worker.give({"walk": paths})
        with selectors.DefaultSelector() as ready:
            ready.register(worker.out, selectors.EVENT_READ)
            while True:
                if not ready.select(LOOK_EVERY_S):
                    if time.monotonic() - worker.sign_at > wait_s and not _moves(worker):
                        left.append(("unreadable", ", ".join(paths), f"no answer for {duration(wait_s)}"))
                        return units, left
                    continue
                said = worker.lines()
                if said is None:
                    raise Unavailable("the process that lists the files ended", hint="run it again")
                for each in said:
                    if "left" in each:
                        kind, path, why = each["left"]
                        left.append((kind, path, why))
                    units += [build(Unit, one) for one in each.get("found", ())]
                    if each.get("end"):
                        return units, left
    finally:
        _end(worker)


def _moves(worker: _Worker) -> bool:
    """Whether it computed since the last look."""
    now = _working_s(worker.process.pid)
    moves = now > worker.worked_s + 0.05
    worker.worked_s = now
    if moves:
        worker.sign_at = time.monotonic()
    return moves


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
        self._workers: list[_Worker] = []
        self._again: deque[list[Unit]] = deque()

    def read(self, units: Iterable[Unit]) -> Iterator[tuple[Unit | None, Looked | None, int]]:
        """Each unit with its result, and between them how many bytes were read meanwhile."""
        batches = _batches(units)
        with selectors.DefaultSelector() as ready:
            try:
                for _ in range(self._count):
                    self._employ(ready, batches)
                while self._workers:
                    for key, _ in ready.select(LOOK_EVERY_S):
                        yield from self._hear(key.data, ready, batches)
                    for worker in list(self._workers):
                        if self._is_past_waiting(worker):
                            yield from self._died(worker, ready)
                            self._employ(ready, batches)
            finally:
                for worker in self._workers:
                    _end(worker)
                self._workers.clear()

    def _next(self, batches: Iterator[list[Unit]]) -> list[Unit] | None:
        return self._again.popleft() if self._again else next(batches, None)

    def _employ(self, ready: selectors.BaseSelector, batches: Iterator[list[Unit]]) -> None:
        """A new worker, if there is work for it."""
        some = self._next(batches)
        if some is None:
            return
        worker = _start()
        self._workers.append(worker)
        ready.register(worker.out, selectors.EVENT_READ, worker)
        self._give(worker, some)

    def _give(self, worker: _Worker, some: list[Unit]) -> None:
        worker.units = some
        worker.give({"asked": to_plain(self._asked), "units": [to_plain(unit) for unit in some]})

    def _hear(
        self, worker: _Worker, ready: selectors.BaseSelector, batches: Iterator[list[Unit]]
    ) -> Iterator[tuple[Unit | None, Looked | None, int]]:
        said = worker.lines()
        if said is None:
            yield from self._died(worker, ready)
            self._employ(ready, batches)
            return
        for each in said:
            if "read" in each:
                yield None, None, int(each["read"])
            elif "done" in each:
                worker.at = each["done"] + 1
                yield worker.units[each["done"]], looked_from(each["looked"]), 0
        if worker.at == len(worker.units):
            some = self._next(batches)
            if some is not None:
                self._give(worker, some)
                return
            ready.unregister(worker.out)
            self._workers.remove(worker)
            _end(worker)

    def _died(self, worker: _Worker, ready: selectors.BaseSelector) -> Iterator[tuple[Unit | None, Looked | None, int]]:
        ready.unregister(worker.out)
        self._workers.remove(worker)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(1.0)
        status = worker.process.returncode if worker.process.returncode is not None else _end(worker)
        if worker.at < len(worker.units):
            yield worker.units[worker.at], worker.why or _crashed(status), 0
            if rest := worker.units[worker.at + 1 :]:
                self._again.append(rest)

    def _is_past_waiting(self, worker: _Worker) -> bool:
        """Whether it takes too much memory or time; then it is killed, and the reason noted."""
        now = time.monotonic()
        if now - worker.looked_at < LOOK_EVERY_S:
            return False
        worker.looked_at = now
        if _memory(worker.process.pid) > self._most_memory:
            worker.why = Looked("", unread=f"reading it takes more than {size(self._most_memory)} of memory")
        elif now - worker.sign_at > self._wait_s and not _moves(worker):
            worker.why = Looked("", unreadable=f"no answer for {duration(self._wait_s)}")
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
