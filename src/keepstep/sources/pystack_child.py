# SPDX-License-Identifier: Apache-2.0
"""A program of its own: the stacks of one process or core, by pystack, as JSON on stdout.

pystack's engine is native code that reads hostile bytes and stops other processes; in
a child of ours a crash or a hang of it costs us nothing. Usage:

    python -I pystack_child.py remote PID all|native|plain|noblock
    python -I pystack_child.py core FILE EXECUTABLE all|native|plain

``native`` adds native frames to the threads that run Python, ``all`` adds all other threads.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MOST_FRAMES = 300
MOST_THREADS = 200


def main(arguments: list[str]) -> int:
    try:
        from pystack.engine import NativeReportingMode, StackMethod, get_process_threads, get_process_threads_for_core
    except Exception as error:
        return _fail("missing", f"{type(error).__name__}: {error}")
    modes = {"all": NativeReportingMode.ALL, "native": NativeReportingMode.PYTHON}
    how = modes.get(arguments[-1], NativeReportingMode.OFF)
    try:
        if arguments[0] == "remote":
            threads = get_process_threads(int(arguments[1]), stop_process=arguments[2] != "noblock", native_mode=how)
        else:
            threads = get_process_threads_for_core(arguments[1], arguments[2], native_mode=how, method=StackMethod.AUTO)
        document = [_thread(thread) for thread in threads[:MOST_THREADS]]
    except Exception as error:
        return _fail("failed", f"{type(error).__name__}: {error}")
    json.dump({"threads": document}, sys.stdout)
    return 0


def _fail(kind: str, why: str) -> int:
    json.dump({"error": kind, "why": why[:500]}, sys.stdout)
    return 1


def _thread(thread: Any) -> dict[str, Any]:
    return {
        "tid": thread.tid,
        "name": thread.name,
        "gil": thread.holds_the_gil > 0,
        "frames": _merged(thread)[:MOST_FRAMES],
    }


def _merged(thread: Any) -> list[list[Any]]:
    """Frames, innermost first: ``[function, file, line, library]``, Python and native in their order."""
    from pystack.types import NativeFrame, frame_type

    kinds = [(frame, frame_type(frame, thread.python_version)) for frame in thread.native_frames]
    python = list(thread.all_frames)
    evals = sum(1 for _, kind in kinds if kind is NativeFrame.FrameType.EVAL)
    if kinds and evals == sum(1 for frame in python if frame.is_entry):
        merged: list[list[Any]] = []
        waiting = iter(python)
        current = next(waiting, None)
        for frame, kind in kinds:
            if kind is NativeFrame.FrameType.EVAL:
                while current is not None:
                    if not current.is_shim:
                        merged.append(_python(current))
                    current = next(waiting, None)
                    if current is not None and current.is_entry:
                        break
            elif kind is NativeFrame.FrameType.OTHER:
                merged.append(_native(frame))
        return merged[::-1]
    inner: list[list[Any]] = []
    for frame, kind in reversed(kinds):
        if kind is NativeFrame.FrameType.EVAL:
            break
        if kind is NativeFrame.FrameType.OTHER:
            inner.append(_native(frame))
    return inner + [_python(frame) for frame in python if not frame.is_shim][::-1]


def _python(frame: Any) -> list[Any]:
    return [frame.code.scope, frame.code.filename, frame.code.location.lineno, None]


def _native(frame: Any) -> list[Any]:
    return [frame.symbol.replace(" (inlined)", ""), frame.path, frame.linenumber, frame.library]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
