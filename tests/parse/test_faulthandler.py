# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.facts.process import FatalSignal, NativeAbort, StackDump
from keepstep.parse.formats.faulthandler import BLOCKS
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan

SEGFAULT = """\
step 12 loss 0.4
Fatal Python error: Segmentation fault

Thread 0x00007f6af0ff9700 (most recent call first):
  File "/usr/lib/python3.8/threading.py", line 306 in wait
  File "/usr/lib/python3.8/threading.py", line 558 in wait

Current thread 0x00007f4ebf9d3740 (most recent call first):
  File "/venv/lib/python3.10/site-packages/torch/distributed/elastic/utils/store.py", line 31 in get_all
  File "/job/train.py", line 53 in main
  File "/job/train.py", line 88 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C, my_ops._kernels (total: 3)
"""


def facts(text: str) -> list[object]:
    return [
        s.fact
        for s in LogScan(build((), BLOCKS)).scan([text.encode()])
        if type(s.fact).__name__ not in ("StreamEnded", "ErrorSaid")
    ]


def test_a_segfault_has_its_signal_the_current_stack_and_the_loaded_extensions() -> None:
    found = facts(SEGFAULT)
    crash = next(f for f in found if isinstance(f, FatalSignal))
    assert crash.signal == "SIGSEGV"
    assert [(f.function, f.line) for f in crash.frames] == [("get_all", 31), ("main", 53), ("<module>", 88)]
    assert crash.extensions == ("numpy.core._multiarray_umath", "torch._C", "my_ops._kernels")


def test_every_thread_is_a_stack_and_one_is_current() -> None:
    stacks = [f for f in facts(SEGFAULT) if isinstance(f, StackDump)]
    assert [(s.current, s.frames[0].function) for s in stacks] == [(False, "wait"), (True, "get_all")]


def test_without_a_current_thread_the_one_inside_a_framework_is_taken() -> None:
    text = """\
Fatal Python error: Segmentation fault

Thread 0x00007d1b39ade740 (most recent call first):
  File "/usr/local/lib/python3.10/dist-packages/jax/_src/interpreters/pxla.py", line 1287 in __call__
  File "/job/train.py", line 40 in step

Thread 0x00007d1b39ade999 (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 1 in run
"""
    crash = next(f for f in facts(text) if isinstance(f, FatalSignal))
    assert crash.frames[0].function == "__call__"


def test_prefixes_of_ranks_do_not_disturb_the_block() -> None:
    text = "\n".join(
        line
        for pair in zip(SEGFAULT.splitlines(), ["[rank0]: step 13"] * 30, strict=False)
        for line in (f"[rank3]: {pair[0]}", pair[1])
    )
    crash = next(f for f in facts(text) if isinstance(f, FatalSignal))
    assert crash.frames[-1].line == 88


def test_c_stacks_of_newer_pythons_come_before_the_python_frames() -> None:
    text = """\
Fatal Python error: Aborted

Current thread 0x00007f4ebf9d3740 [python] (most recent call first):
  File "/job/train.py", line 5 in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/usr/lib/libpython3.14.so.1.0", at _Py_DumpStack+0x3b [0x7f1c]
  Binary file "/job/libmine.so", at fit+0x1b [0x7f1d]
"""
    crash = next(f for f in facts(text) if isinstance(f, FatalSignal))
    assert crash.signal == "SIGABRT"
    assert [f.function for f in crash.frames] == ["_Py_DumpStack", "fit", "<module>"]
    assert crash.frames[1].library == "libmine.so"


def test_other_fatal_errors_of_the_interpreter_are_aborts() -> None:
    (found,) = facts("Fatal Python error: PyThreadState_Get: the function must be called with the GIL held\n")
    assert isinstance(found, NativeAbort)
    assert "PyThreadState_Get" in found.what


def test_a_normal_traceback_is_no_stack_dump() -> None:
    assert facts('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x\n') == []
