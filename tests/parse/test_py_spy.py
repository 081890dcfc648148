# SPDX-License-Identifier: Apache-2.0
"""The output of py-spy."""

from __future__ import annotations

from keepstep.model.facts.process import Frame, StackDump
from keepstep.parse.formats.py_spy import BLOCKS
from keepstep.signals.stacks import Whose, whose
from keepstep.signals.waits import WaitKind, waits_in


def read(text: str) -> list[StackDump]:
    lines = text.splitlines()
    found: list[StackDump] = []
    for number, line in enumerate(lines):
        match = BLOCKS[0].begin.pattern.search(line)
        if match:
            found += BLOCKS[0].read(match, iter(lines[number + 1 :]))
    return found


DUMP = """\
Process 6473: /venv/bin/python3.11 -u train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 6473 (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2050)
    wrapper (torch/distributed/c10d_logger.py:47)
        Arguments:
            args: ((<Tensor at 0x7f>,), 3)
    step (train.py:88)
    <module> (train.py:120)
Thread 6601 (idle): "QueueFeederThread"
    wait (threading.py:320)
    _feed (multiprocessing/queues.py:231)
    run (threading.py:975)
"""


def test_every_thread_of_a_dump():
    main, feeder = read(DUMP)
    assert (main.thread, main.current, main.holds_gil, main.living) == ("MainThread", True, True, True)
    assert (feeder.thread, feeder.current, feeder.holds_gil) == ("QueueFeederThread", False, False)
    assert main.frames[-1] == Frame(function="<module>", file="train.py", line=120)
    assert [whose(f) for f in main.frames] == [Whose.FRAMEWORK, Whose.FRAMEWORK, Whose.USER, Whose.USER]
    assert whose(feeder.frames[1]) is Whose.PYTHON
    wait = waits_in(main.frames)
    assert wait is not None
    assert wait.kind is WaitKind.COLLECTIVE


def test_the_form_of_its_first_versions_and_native_frames():
    (only,) = read(
        "Thread 0x7F4AACDE7700 (active)\n\t pthread_cond_wait (libpthread-2.31.so)\n\t main_loop (ray/worker.py:1005)\n\t <module> (x.py:105)\n"
    )
    assert only.current
    assert only.frames[0].is_native
    assert only.frames[1].line == 1005


def test_a_thread_without_frames_says_nothing():
    assert read('Thread 1 (idle): "x"\n\n') == []


def test_pystack_prints_the_innermost_frame_last():
    text = (
        "Traceback for thread 2175 (python3.12) [Has the GIL] (most recent call last):\n"
        '    (Python) File "/work/train.py", line 120, in <module>\n        main()\n'
        '    (Python) File "/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 4159, in barrier\n'
        '    (C) File "???", line 0, in c10d::Work::wait (libtorch_cpu.so)\n\n'
    )
    match = BLOCKS[1].begin.pattern.search(text.splitlines()[0])
    assert match is not None
    (only,) = BLOCKS[1].read(match, iter(text.splitlines()[1:]))
    assert (only.thread, only.current, only.holds_gil, only.living) == ("2175", True, True, True)
    assert only.frames[0].is_native
    assert only.frames[-1].function == "<module>"
