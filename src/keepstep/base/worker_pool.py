# SPDX-License-Identifier: Apache-2.0
"""Worker processes that a task may bring down: each is given tasks, answers them in order, and is replaced if it ends.

Messages are bytes, each after its length, over two pipes. A worker is a program of its own (:meth:`Worker.run`), where
native code reads foreign bytes, or a fork of this process (:meth:`Worker.fork`), where it shares what is loaded.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NoReturn, TypeVar

SIZE = 4
"""Bytes of the length before each message."""
LOOK_EVERY_S = 0.5
LAST_WAIT_S = 1.0
_PIECE = 1 << 20

Task = TypeVar("Task")
Result = TypeVar("Result")
SomeWorker = TypeVar("SomeWorker", bound="Worker")
Messages = Iterator[bytes]
Send = Callable[[bytes], None]


def send(descriptor: int, message: bytes) -> None:
    """One message, whole."""
    rest = memoryview(len(message).to_bytes(SIZE, "little") + message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def messages(descriptor: int) -> Messages:
    """What arrives, until the other side has closed its end or is gone."""
    with open(descriptor, "rb", closefd=False) as stream:
        while len(head := stream.read(SIZE)) == SIZE:
            yield stream.read(int.from_bytes(head, "little"))


class Worker:
    """A child process, seen from outside. ``given``: its tasks that are not answered yet; it is at the first."""

    def __init__(self, pid: int, tasks: int, answers: int, wait: Callable[[float], int | None]) -> None:
        self.pid = pid
        self.given: deque[Any] = deque()
        self.since = time.monotonic()
        """When it was given something, or said something."""
        self.has_spoken = False
        self._tasks, self._answers, self._wait = tasks, answers, wait
        self._open: tuple[int, ...] = (tasks, answers)
        self._status: int | None = None
        self._buffer = bytearray()

    @classmethod
    def run(cls: type[SomeWorker], command: list[str], **options: Any) -> SomeWorker:
        """A program that reads messages from its standard input and answers on its standard output."""
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0, **options)
        assert process.stdin is not None and process.stdout is not None

        def wait(most_s: float) -> int | None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(most_s)
            return None

        worker = cls(process.pid, os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()), wait)
        process.stdin.close()
        process.stdout.close()
        return worker

    @classmethod
    def fork(cls: type[SomeWorker], serve: Callable[[Messages, Send], object]) -> SomeWorker:
        """A copy of this process that only does ``serve``."""
        their_tasks, tasks = os.pipe()
        answers, their_answers = os.pipe()
        pid = os.fork()  # keepstep: ignore[COD113] no framework is loaded where this is called
        if not pid:
            os.close(tasks)
            os.close(answers)
            _serve(serve, their_tasks, their_answers)
        os.close(their_tasks)
        os.close(their_answers)

        def wait(most_s: float) -> int | None:
            until = time.monotonic() + most_s
            while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < until:
                time.sleep(0.001)
            return os.waitstatus_to_exitcode(ended[1]) if ended[0] else None

        return cls(pid, tasks, answers, wait)

    def fileno(self) -> int:
        """Readable when it has said something, or ended."""
        return self._answers

    def give(self, message: bytes) -> None:
        self.since = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has ended; that is noticed when it is listened to
            send(self._tasks, message)

    def heard(self) -> list[bytes] | None:
        """The messages since the last call; None if it has ended. Waits until there is something."""
        data = os.read(self._answers, _PIECE)
        if not data:
            return None
        self._buffer += data
        self.has_spoken, self.since = True, time.monotonic()
        whole, place = [], 0
        while len(self._buffer) >= (begin := place + SIZE):
            end = begin + int.from_bytes(self._buffer[place:begin], "little")
            if len(self._buffer) < end:
                break
            whole.append(bytes(self._buffer[begin:end]))
            place = end
        del self._buffer[:place]
        return whole

    def answer(self, limit_s: float, most_bytes: int = 1 << 32) -> bytes | None:
        """The next message; None if it does not come in time, or is too long, or never will."""
        until = time.monotonic() + limit_s
        while (left := until - time.monotonic()) > 0 and len(self._buffer) < most_bytes:
            if not select.select([self._answers], [], [], left)[0] or (said := self.heard()) is None:
                return None
            if said:
                return said[0]
        return None

    def wait(self, most_s: float = LAST_WAIT_S) -> int | None:
        """Its status, if it ends in time."""
        if self._status is None:
            self._status = self._wait(most_s)
        return self._status

    def end(self) -> int | None:
        """Kill it. Its status; None if it cannot be killed: what waits for a dead mount lives until that answers."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = ()
        if self._status is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def _serve(serve: Callable[[Messages, Send], object], tasks: int, answers: int) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
        serve(messages(tasks), lambda message: send(answers, message))
        status = 0
    finally:
        os._exit(status)


class WorkerPool(ABC, Generic[Task, Result]):
    """Gives tasks to workers, in batches. A subclass says how one starts, what to send it, what its answers mean."""

    def __init__(self, count: int) -> None:
        self._count = max(1, count)
        self._workers: list[Worker] = []
        self._again: deque[list[Task]] = deque()

    @abstractmethod
    def start(self) -> Worker: ...

    @abstractmethod
    def request(self, tasks: list[Task]) -> bytes: ...

    @abstractmethod
    def answered(self, task: Task, message: bytes) -> Result: ...

    @abstractmethod
    def lost(self, task: Task, worker: Worker, status: int | None) -> Result:
        """The result of a task at which its worker ended."""

    def between(self, message: bytes) -> Result | None:
        """The result of a message that answers no task yet; None: it is an answer."""
        return None

    def refused(self, task: Task) -> Result | None:
        """The result of a task that shall not be tried; None: it shall."""
        return None

    def is_overdue(self, worker: Worker) -> bool:
        """Whether to end a worker now. Asked every ``LOOK_EVERY_S``."""
        return False

    def results(
        self, batches: Iterable[list[Task]], meanwhile: Callable[[], object] = lambda: None
    ) -> Iterator[Result]:
        """In the order in which they are ready. ``meanwhile`` is called as soon as all workers have something to do."""
        self._batches = iter(batches)
        looked_at = time.monotonic()
        with selectors.DefaultSelector() as self._ready:
            try:
                for _ in range(self._count):
                    yield from self._employ()
                meanwhile()
                while self._workers:
                    for key, _ in self._ready.select(LOOK_EVERY_S):
                        yield from self._hear(key.data)
                    if time.monotonic() - looked_at >= LOOK_EVERY_S:
                        looked_at = time.monotonic()
                        for worker in [each for each in self._workers if self.is_overdue(each)]:
                            yield from self._replace(worker)
            finally:
                for worker in self._workers:
                    worker.end()
                self._workers.clear()

    def _employ(self, worker: Worker | None = None) -> Iterator[Result]:
        """Work for a worker, or for a new one; without work there is none."""
        while batch := self._again.popleft() if self._again else next(self._batches, None):
            tasks = []
            for task in batch:
                if (result := self.refused(task)) is None:
                    tasks.append(task)
                else:
                    yield result
            if tasks:
                if worker is None:
                    worker = self.start()
                    self._workers.append(worker)
                    self._ready.register(worker, selectors.EVENT_READ, worker)
                worker.given = deque(tasks)
                worker.give(self.request(tasks))
                return
        if worker is not None:
            self._dismiss(worker)
            worker.end()

    def _dismiss(self, worker: Worker) -> None:
        self._ready.unregister(worker)
        self._workers.remove(worker)

    def _hear(self, worker: Worker) -> Iterator[Result]:
        said = worker.heard()
        if said is None:
            worker.wait()
            yield from self._replace(worker)
            return
        for message in said:
            result = self.between(message)
            yield self.answered(worker.given.popleft(), message) if result is None else result
        if not worker.given:
            yield from self._employ(worker)

    def _replace(self, worker: Worker) -> Iterator[Result]:
        """The task that it was at is lost; the rest is given to others."""
        self._dismiss(worker)
        status = worker.end()
        if worker.given:
            yield self.lost(worker.given.popleft(), worker, status)
            if worker.given:
                self._again.append(list(worker.given))
        yield from self._employ()
