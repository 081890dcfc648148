# SPDX-License-Identifier: Apache-2.0
"""Worker processes that crash, hang and end: each costs one task, and the others are done."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from keepstep.base.forked_calls import ForkedCalls
from keepstep.base.worker_pool import Messages, Send, Worker, WorkerPool, messages, send


def one(task: str) -> str:
    if task == "crash":
        os.kill(os.getpid(), signal.SIGTERM)
    if task == "hang":
        time.sleep(1000)
    if task == "leave":
        os._exit(3)
    if task == "raise":
        raise LookupError("of the task")
    return task.upper()


class Words(WorkerPool[str, str]):
    """Upper-case words; one that takes a second too long is given up."""

    def start(self) -> Worker:
        def serve(tasks: Messages, send: Send) -> None:
            for task in tasks:
                for word in task.decode().split():
                    send(b"so far")
                    send(one(word).encode())

        return Worker.fork(serve)

    def request(self, tasks: list[str]) -> bytes:
        return " ".join(tasks).encode()

    def answered(self, task: str, message: bytes) -> str:
        assert message.decode() == task.upper(), "answers come in the order of the tasks"
        return message.decode()

    def between(self, message: bytes) -> str | None:
        return "..." if message == b"so far" else None

    def refused(self, task: str) -> str | None:
        return "no" if task == "never" else None

    def lost(self, task: str, worker: Worker, status: int | None) -> str:
        return f"{task} {status}"

    def is_overdue(self, worker: Worker) -> bool:
        return time.monotonic() - worker.since > 1.0


@pytest.mark.parametrize("count", [1, 3])
def test_a_task_that_brings_its_worker_down_costs_only_itself(count: int) -> None:
    batches = [["a", "crash", "b", "hang", "never", "c"], ["leave", "d"], ["e"]]
    found = sorted(each for each in Words(count).results(batches) if each != "...")
    assert found == ["A", "B", "C", "D", "E", f"crash {-signal.SIGTERM}", f"hang {-signal.SIGKILL}", "leave 3", "no"]


def test_workers_that_are_not_listened_to_any_more_are_ended() -> None:
    pool = Words(2)
    results = pool.results([["a"], ["hang"]])
    assert next(results) == "..."
    ended = [worker.pid for worker in pool._workers]
    results.close()
    assert len(ended) == 2
    for pid in ended:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_function_is_called_in_forks_and_what_it_raises_is_raised_here() -> None:
    calls = ForkedCalls(2, one, lambda task, status: f"{task} {status}")
    assert sorted(calls.results([["a", "leave", "b"], ["c"]])) == ["A", "B", "C", "leave 3"]
    with pytest.raises(LookupError, match="of the task"):
        list(ForkedCalls(2, one, lambda task, status: "").results([["raise"]]))


ECHO = """
import sys, time
while head := sys.stdin.buffer.read(4):
    said = sys.stdin.buffer.read(int.from_bytes(head, "little"))
    if said == b"hang": time.sleep(1000)
    sys.stdout.buffer.write(head + said); sys.stdout.buffer.flush()
"""


def test_a_program_answers_in_time_or_not_at_all() -> None:
    worker = Worker.run([sys.executable, "-c", ECHO])
    long = os.urandom(3 << 20)
    try:
        for message in (b"", b"x", b"\n" * 10):
            worker.give(message)
            assert worker.answer(60.0) == message
        worker.give(b"hang")
        assert worker.answer(0.2) is None
    finally:
        assert worker.end() == -signal.SIGKILL
        assert worker.end() == -signal.SIGKILL, "ended twice"
    worker = Worker.run([sys.executable, "-c", ECHO])
    worker.give(long)
    assert worker.answer(60.0, most_bytes=1 << 20) is None
    worker.end()


def test_messages_end_where_the_other_side_does() -> None:
    reading, writing = os.pipe()
    send(writing, b"one")
    send(writing, b"")
    os.write(writing, b"\x05")
    os.close(writing)
    assert list(messages(reading)) == [b"one", b""]
    os.close(reading)
