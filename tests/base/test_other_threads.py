# SPDX-License-Identifier: Apache-2.0
"""Frames and exceptions of other threads, while garbage waits that needs the interpreter's list of threads."""

from __future__ import annotations

import subprocess
import sys
import threading

from keepstep.base.other_threads import exception_of, frame_of

GARBAGE = """
import gc, threading
from keepstep.base.other_threads import exception_of, frame_of

class Ring:
    pass

gc.set_threshold(1)
for _ in range(200):
    ring = Ring()
    ring.itself, ring.kept = ring, threading.local()
    del ring
    assert frame_of(threading.get_ident())
    assert exception_of(threading.get_ident()) is None
assert gc.isenabled()
gc.disable()
frame_of(threading.get_ident())
assert not gc.isenabled()
"""


def test_a_thread_is_found_with_what_it_raises() -> None:
    seen, on = threading.Event(), threading.Event()

    def raises() -> None:
        try:
            raise KeyError("batch")
        except KeyError:
            seen.set()
            assert on.wait(60)

    thread = threading.Thread(target=raises)
    thread.start()
    assert seen.wait(60) and thread.ident
    error, frame = exception_of(thread.ident), frame_of(thread.ident)
    on.set()
    thread.join()
    assert isinstance(error, KeyError) and frame is not None
    assert frame_of(-1) is None and exception_of(-1) is None


def test_garbage_that_needs_the_list_of_threads_does_not_stop_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", GARBAGE], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
