# SPDX-License-Identifier: Apache-2.0
"""A separate program: the stacks of one process or core, by pystack, as JSON on stdout.

pystack's engine is native code that reads hostile bytes and stops other processes; in a child process, a crash or hang
of it costs us nothing. Usage:

    python -I pystack_child.py remote PID SECONDS all|native|plain|noblock
    python -I pystack_child.py core FILE EXECUTABLE all|native|plain
    python -I pystack_child.py serve

A process is stopped for SECONDS at most; ``noblock`` does not stop it.
``serve`` reads such arguments, one JSON list per line, and answers each with a line until its input ends: starting this
program takes most of the time of a look. ``native`` adds native frames to the threads that run Python, ``all`` adds all
other threads.

libdw looks for a mapped library's build id at its load address plus the note's offset in the file. patchelf, and so
every repaired wheel, moves notes to where that address is wrong; if another library's note happens to lie there, libdw
gives up on the whole core. Such notes are then hidden from it, in this process's private view of the core, and it is
asked again.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import mmap
import os
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

EAGER = -3
"""Its priority once it waits for questions, if that is allowed: on a crowded host looks come too late.

A process may be stopped while it is looked at, so a look that waits for a core holds the training up. But beats between
nodes and the end of a lease go before it.
"""
MOST_FRAMES = 300
MOST_THREADS = 200
MOST_SEGMENTS = 60_000


def main(arguments: list[str]) -> int:
    if arguments == ["serve"]:
        return _serve()
    try:
        from pystack.engine import NativeReportingMode, StackMethod, get_process_threads, get_process_threads_for_core
    except Exception as error:
        return _fail("missing", f"{type(error).__name__}: {error}")
    modes = {"all": NativeReportingMode.ALL, "native": NativeReportingMode.PYTHON}
    how = modes.get(arguments[-1], NativeReportingMode.OFF)
    try:
        if arguments[0] == "remote":
            stops = arguments[-1] != "noblock"
            _end_after(float(arguments[2]) if stops else 0.0)
            threads = get_process_threads(int(arguments[1]), stop_process=stops, native_mode=how)
        else:
            try:
                threads = get_process_threads_for_core(
                    arguments[1], arguments[2], native_mode=how, method=StackMethod.AUTO
                )
            except Exception:
                if not _hide_misplaced_notes(arguments[1]):
                    raise
                threads = get_process_threads_for_core(
                    arguments[1], arguments[2], native_mode=how, method=StackMethod.AUTO
                )
        document = [_thread(thread) for thread in threads[:MOST_THREADS]]
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Exception as error:
        return _fail("failed", f"{type(error).__name__}: {error}")
    json.dump({"threads": document}, sys.stdout)
    return 0


def _end_after(seconds: float) -> None:
    """End this program after this long, unless the look is over: the kernel then releases the stopped process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _serve() -> int:
    """One message per look, each after its length (``base/worker_pool.py``, which is not imported here).

    A look that fails is an answer too, and one that crashes this program ends it.
    """
    try:
        import pystack.engine  # noqa: F401  (that is what takes the time)
    except Exception as error:
        return _fail("missing", f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, EAGER)  # not before: loading takes long, and is not urgent
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := asked.read(4):
        words = [str(word) for word in json.loads(asked.read(int.from_bytes(head, "little")))]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            failed = main(words) != 0
        answer = said.getvalue().encode()
        answers.write(len(answer).to_bytes(4, "little") + answer)
        answers.flush()
        if words[0] == "remote" and (failed or _still_holds(words[1])):
            return 0  # only the end of this program releases a process that died during the look
    return 0


def _still_holds(pid: str) -> bool:
    """Whether this program still traces the process: then it could not end, and no parent could wait for its end."""
    mine = f"TracerPid:\t{os.getpid()}\n"
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status") as status:
                if mine in status.read():
                    return True
    except OSError:
        return False
    return False


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


_ELF = b"\x7fELF\x02\x01"  # 64-bit, little-endian: all machines that pystack is built for
_PT_LOAD, _PT_NOTE, _SHT_RELA = 1, 4, 4
_PAGE = mmap.PAGESIZE
_HEADERS = 4096
_kept: list[Any] = []


def _hide_misplaced_notes(core: str) -> bool:
    """Make libdw skip the notes it would look for in a wrong place; False if there are none."""
    from pystack import _pystack

    path = os.path.realpath(core)
    try:
        places = _misplaced_notes(path)
        slot = _slot(_pystack.__file__, b"dwfl_core_file_report")
    except (OSError, ValueError, LookupError, struct.error):
        return False
    if not places or slot is None:
        return False
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    real = function(ctypes.c_uint64.from_address(slot).value)

    def report(dwfl: int, elf: int, executable: int) -> int:
        for start in _mapped_at(path):
            for place in places:
                _write(start + place, b"\0\0\0\0")  # the map is private: the file stays as it is
        return int(real(dwfl, elf, executable))

    ours = function(report)
    _kept.append(ours)
    _write(slot, struct.pack("<Q", ctypes.cast(ours, ctypes.c_void_p).value or 0))
    return True


def _misplaced_notes(core: str) -> list[int]:
    """Where in the core the types of those program headers are whose note is not at its offset in the file."""
    places = []
    with open(core, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for _, kind, offset, _, size in _program_headers(data, 0, len(data)):
            header = offset + _HEADERS <= len(data) and size >= _HEADERS and data[offset : offset + 6] == _ELF
            if kind != _PT_LOAD or not header:
                continue
            moved = None
            for at, inner, inner_offset, address, _ in _program_headers(data, offset, offset + _HEADERS):
                if inner == _PT_LOAD and moved is None:
                    moved = address - inner_offset
                elif inner == _PT_NOTE and address - inner_offset != (moved or 0):
                    places.append(at)
    return places


def _program_headers(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Of the ELF image at ``start``: each header's place, type, offset, address and size in the file."""
    if data[start : start + 6] != _ELF:
        return
    (first,) = struct.unpack_from("<Q", data, start + 32)
    (count,) = struct.unpack_from("<H", data, start + 56)
    for at in range(start + first, start + first + 56 * min(count, MOST_SEGMENTS), 56):
        if at + 56 > end:
            return
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, at)
        yield at, kind, offset, address, size


def _slot(library: str, name: bytes) -> int | None:
    """The address of the word through which a loaded library calls a function of another."""
    start = next(_mapped_at(os.path.realpath(library)), None)
    with open(library, "rb") as file:
        data = file.read()
    (first,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, first + 64 * n) for n in range(count)]
    for section in sections:
        if section[1] != _SHT_RELA or start is None:
            continue
        symbols = sections[section[6]]
        names = sections[symbols[6]]
        for at in range(section[4], section[4] + section[5], 24):
            offset, what = struct.unpack_from("<QQ", data, at)
            (place,) = struct.unpack_from("<I", data, symbols[4] + 24 * (what >> 32))
            begin = names[4] + place
            if what >> 32 and data[begin : begin + len(name) + 1] == name + b"\0":
                return int(start + offset)
    return None


def _mapped_at(path: str) -> Iterator[int]:
    """Where a file's beginning is mapped into this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps.read().splitlines():
            parts = line.split(None, 5)
            if len(parts) == 6 and parts[5] == path and int(parts[2], 16) == 0:
                yield int(parts[0].partition("-")[0], 16)


def _write(address: int, value: bytes) -> None:
    page = address - address % _PAGE
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(page, address + len(value) - page, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        raise OSError("a page could not be made writable")
    ctypes.memmove(address, value, len(value))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
