# SPDX-License-Identifier: Apache-2.0
"""For `keepstep shrink`: which lines a rank ran, what it imported and read, where a number first was not finite, and
what the rank held as it failed.

Works only where the trial named a folder for it. A line is written the first time it runs, so a rank that is killed has
still told.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import sys
import threading
import time
from types import FrameType, ModuleType
from typing import Any

from keepstep.base.safe_files import write_whole
from keepstep.guard.own_rank import of_environment
from keepstep.guard.record.user_line import is_library

VARIABLE = "KEEPSTEP_TRIAL"
SUFFIX = ".lines"
MOST_NAMES = 100
LARGEST = 1 << 20
"""Elements of a tensor whose content is looked at."""
LONGEST = 8000
SMALL = 1 << 16
"""The same, after every line."""
SAME_NUMBERS = " of one number"
"""Whole numbers that are all the same: one wrong label among many is not the same as nothing but wrong ones."""

ENDLESS = 97
"""The exit status of a rank that ran more lines than the trial allows."""
FIRST_COUNT = 1 << 10

_lines: _Lines | None = None


def begin() -> None:
    """Called at the start of each Python process of the trial."""
    folder, where = os.environ.get(VARIABLE), os.environ.get(f"{VARIABLE}_LINES")
    show = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        with contextlib.suppress(Exception):
            keep_values(error, None)
        show(kind, error, trace)

    sys.excepthook = hook
    if folder and where:
        path = os.path.join(folder, f"{os.getpid()}{SUFFIX}")
        out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        global _lines
        most = int(os.environ.get(f"{VARIABLE}_MOST") or sys.maxsize)
        finite = bool(os.environ.get(f"{VARIABLE}_FINITE"))
        _lines = _Lines(out, tuple(where.split(os.pathsep)), finite=finite, most=most)
        _lines.begin()


class _Lines:
    """A tracer of lines, and a finder that finds nothing but sees what is imported."""

    def __init__(self, out: int, folders: tuple[str, ...], *, finite: bool, most: int) -> None:
        self._count, self._next, self._most = 0, min(FIRST_COUNT, most), most
        """How many lines ran, when that is written next, and how many may."""
        self._out, self._folders = out, tuple(os.path.join(each, "") for each in folders)
        self._times: dict[tuple[str, int], int] = {}
        """How often a line ran; it counts to two."""
        self._before: dict[int, int] = {}
        """The line that each frame is in."""
        self._known: dict[str, str] = {}
        self._finite = finite
        self.not_finite: tuple[str, int] | None = None
        """The first line after which a number of the program was not finite."""

    def begin(self) -> None:
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._opened)
        atexit.register(os.write, self._out, b"E\n")
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _opened(self, event: str, about: Any) -> None:
        """A file of the user's that is read from Python."""
        with contextlib.suppress(Exception):
            if event == "open" and isinstance(about[0], str) and not about[2] & (os.O_WRONLY | os.O_RDWR):
                path = os.path.realpath(about[0])
                if path.startswith(self._folders) and not is_library(path):
                    os.write(self._out, f"O{path}\n".encode())

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        with contextlib.suppress(OSError):
            os.write(self._out, f"M{name}\n".encode(errors="replace"))

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        known = self._known.get(file)
        if known is None:
            real = os.path.realpath(file)
            mine = real.startswith(self._folders) and not is_library(real) and not is_library(file)
            known = self._known[file] = real if mine else ""
        if not known:
            return None
        self._see(known, frame.f_lineno)
        self._before[id(frame)] = frame.f_lineno
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = self._known[frame.f_code.co_filename]
        before = self._before.get(id(frame), 0)
        if self._finite and self.not_finite is None and before:
            self._look(file, before, frame)
        if event == "line":
            self._count += 1
            if self._count == self._next:
                self._tell_count()
            # the lines of one statement run to and fro: only one that is come to from above is begun once more
            self._see(file, frame.f_lineno, again=before <= frame.f_lineno)
            self._before[id(frame)] = frame.f_lineno
        elif event == "return":
            self._before.pop(id(frame), None)
        return self._line

    def _tell_count(self) -> None:
        """Now and then, since a rank may be killed; and at the end of a loop that would have none."""
        with contextlib.suppress(OSError):
            os.write(self._out, f"N{self._count}\n".encode())
        if self._count >= self._most:
            os._exit(ENDLESS)
        self._next = min(2 * self._next, self._most)

    def _look(self, file: str, line: int, frame: FrameType) -> None:
        with contextlib.suppress(Exception):
            if any(map(_is_off, frame.f_locals.values())):
                self.not_finite = (file, line)

    def times(self, file: str, line: int) -> int:
        return self._times.get((file, line), 0)

    def _see(self, file: str, line: int, *, again: bool = True) -> None:
        times = self._times.get((file, line), 0)
        if times < 2 and (again or not times):
            self._times[file, line] = times + 1
            with contextlib.suppress(OSError):
                os.write(self._out, f"{'A' if times else 'L'}{line} {file}\n".encode(errors="replace"))


def keep_values(error: BaseException, rank: int | None) -> None:
    """What ended this rank, and what the user's frame held then: kinds, and whether numbers are finite."""
    folder = os.environ.get(VARIABLE)
    trace, found, stack = error.__traceback__, None, []
    while trace is not None:
        if not is_library(trace.tb_frame.f_code.co_filename):
            found = trace
            stack.append([os.path.realpath(trace.tb_frame.f_code.co_filename), trace.tb_lineno])
        trace = trace.tb_next
    if not folder or found is None:
        return
    frame = found.tb_frame
    values = {}
    for name, value in list(frame.f_locals.items())[:MOST_NAMES]:
        values[name] = _kind(value)
        parts = vars(value) if hasattr(value, "__dict__") and not isinstance(value, ModuleType) else {}
        values |= {f"{name}.{part}": _kind(each) for part, each in list(parts.items())[:MOST_NAMES]}
    about = {
        "rank": rank if rank is not None else of_environment().rank or 0,
        "pid": os.getpid(),
        "at": time.time(),
        "type": type(error).__name__,
        "message": str(error)[:LONGEST],
        "file": os.path.realpath(frame.f_code.co_filename),
        "line": found.tb_lineno,
        "stack": stack[-MOST_NAMES:],
        "values": values,
    }
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        about["absent"] = _absent(error.filename)
    if _lines is not None:
        about["again"] = _lines.times(str(about["file"]), found.tb_lineno) > 1
        about["not_finite"] = _lines.not_finite
    write_whole(os.path.join(folder, f"{os.getpid()}-{id(error)}.values.json"), json.dumps(about).encode())


def _kind(value: Any) -> str:
    kind = type(value).__name__
    with contextlib.suppress(Exception):
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int):
            return kind if value else f"{kind} 0"
        if isinstance(value, float):
            return kind if math.isfinite(value) else "not finite"
        if isinstance(value, (list, tuple)) and 1 < len(value) <= LARGEST and all(type(each) is int for each in value):
            return f"{kind}{SAME_NUMBERS * (min(value) == max(value))}"
        if isinstance(value, (str, bytes, list, tuple, dict, set)):
            return kind if value else f"empty {kind}"
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return f"{kind} {value.dtype} {_finite(value)}".strip()
    return kind


def _finite(value: Any) -> str:
    size = math.prod(value.shape)
    if size == 0:
        return "empty"
    if size > LARGEST or getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
        return ""
    value = _counted(value)
    if size > 1 and "int" in str(value.dtype) and int(value.min()) == int(value.max()):
        return SAME_NUMBERS.strip()
    total = float(abs(value).sum())
    return "" if math.isfinite(total) else "not finite"


def _counted(value: Any) -> Any:
    """What can be added up without being traced, recorded or compiled."""
    if hasattr(value, "detach"):
        return value.detach()
    numpy = sys.modules.get("numpy")
    return numpy.asarray(value) if numpy is not None and hasattr(value, "__array__") else value


def _absent(path: str) -> str:
    """How much of a path is missing, and whether anything lies beside it: a file that is late is not one that nobody
    writes."""
    missing, folder = 1, os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(folder):
        missing, folder = missing + 1, os.path.dirname(folder)
    return f"missing in {missing} parts, {'others' if os.listdir(folder) else 'nothing'} beside"


def _is_off(value: Any) -> bool:
    """Whether it is, or holds, what no number is; infinite only where it is a single number of a framework's: `best =
    inf` and masks are no fault."""
    if isinstance(value, float):
        return math.isnan(value)
    if not (hasattr(value, "dtype") and hasattr(value, "shape")) or not 0 < math.prod(value.shape) <= SMALL:
        return False
    total = float(_counted(value).sum())
    return math.isnan(total) or (math.isinf(total) and not value.shape)
