# SPDX-License-Identifier: Apache-2.0
"""Where another thread is: read at once, while it keeps running, ends, or is very deep."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstep.guard.record import thread_stack
from keepstep.guard.record.thread_stack import DEEPEST, calls


@contextmanager
def thread(work: Callable[[threading.Event], None]) -> Iterator[int]:
    over, begun = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        work(over)

    one = threading.Thread(target=run)
    one.start()
    assert begun.wait(30)
    try:
        yield one.ident or 0
    finally:
        over.set()
        one.join()


def wait_in_prüfung(over: threading.Event) -> None:
    over.wait(60)


def test_the_calls_of_another_thread_are_told_innermost_first() -> None:
    with thread(wait_in_prüfung) as number:
        while "wait_in_prüfung" not in [call.function for call in calls(number)]:
            pass
        stack = calls(number)
    names = [call.function for call in stack]
    assert names.index("wait") < names.index("wait_in_prüfung") < names.index("_bootstrap")
    (here,) = [call for call in stack if call.function == "wait_in_prüfung"]
    assert (
        Path(here.file).name == Path(__file__).name
        and Path(__file__).read_text().splitlines()[here.line - 1].strip() == "over.wait(60)"
    )


def test_a_thread_that_is_gone_has_no_calls() -> None:
    with thread(wait_in_prüfung) as number:
        pass
    assert calls(number) == [] and calls(1) == []


def test_of_a_very_deep_stack_the_innermost_calls_are_told() -> None:
    def deeper(n: int, over: threading.Event) -> None:
        if n:
            deeper(n - 1, over)
        else:
            over.wait(60)

    with thread(lambda over: deeper(300, over)) as number:
        while (stack := calls(number)) and stack[0].function != "wait":
            pass
    assert len(stack) == DEEPEST


def test_a_forked_child_tells_its_own_and_leaves_its_parents_alone() -> None:
    before = calls(threading.get_ident())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        mine = [call.function for call in calls(threading.get_ident())]
        os.write(
            writer, b"right" if "test_a_forked_child_tells_its_own_and_leaves_its_parents_alone" in mine else b"wrong"
        )
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 5) == b"right"
    assert before and calls(threading.get_ident())


def test_a_child_that_is_forked_while_the_stack_is_read_is_not_held() -> None:
    with thread_stack._paper._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if calls(threading.get_ident()) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_makes_and_drops_frames_and_garbage_meanwhile_is_not_harmed() -> None:
    """What a walk over frame objects does not survive: they change between two of its steps."""

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            sum(range(5))

    def some(n: int) -> Iterator[int]:
        Cycle()
        yield n

    def deep(n: int) -> int:
        return deep(n - 1) + next(some(n)) if n else 0

    def work(over: threading.Event) -> None:
        while not over.is_set():
            deep(30)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(50)
    try:
        with thread(work) as number:
            assert all(call.line > 0 for _ in range(300) for call in calls(number))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
