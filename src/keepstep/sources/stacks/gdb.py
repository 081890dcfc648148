# SPDX-License-Identifier: Apache-2.0
"""The native frames of a core's crashed thread, by gdb, if pystack is missing or cannot read the core.

By default gdb reads the symbols of every library, which takes half a minute for TensorFlow's. Here it reads those that
are in every Python process, then one by one those in which a frame turns out to lie.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.process import StackDump
from keepstep.parse.formats import gdb_text
from keepstep.parse.formats.elf_core import Core
from keepstep.signals.stacks import base_name
from keepstep.sources.stacks.process_stacks import Stacks

LIMIT_S = 30.0
MOST_ROUNDS = 12
_USUAL = ("libc", "libpthread", "libm", "libstdc..", "libgcc_s", "libffi", "libpython[^/]*", "_ctypes")
_IS_USUAL = lazy_pattern(rf"/(?:{'|'.join(_USUAL)})[.-][^/]*$")
_READ_USUAL = "sharedlibrary /\\(" + "\\|".join(_USUAL) + "\\)[.-][^/]*$"
# A core is hostile input: no init files, no scripts of the program's libraries, no downloads.
_SAFE = ("set auto-load off", "set debuginfod enabled off", "set auto-solib-add off", "set width 0")
_PLAIN = ("set print frame-info location-and-address", "set print frame-arguments none", "set print entry-values no")


def core_frames(path: Path, executable: Path, core: Core, limit: float = LIMIT_S) -> Stacks | None:
    """The crashed thread's native frames, as many as were found in time; None if gdb is not installed."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return None
    until = time.monotonic() + limit
    read: list[str] = []
    kept: list[str] = []
    why_not = "gdb found no frames"
    for _ in range(MOST_ROUNDS):
        lines = _backtrace(gdb, path, executable, read, until - time.monotonic())
        if lines is None:
            why_not = "gdb did not finish"
            break
        kept, missing = gdb_text.believed(
            lines, lambda name: name in read or _IS_USUAL.search(name) is not None, core.file_at
        )
        if missing is None:
            break
        read.append(missing)
    frames = gdb_text.frames(kept, core.file_at)
    if not frames:
        return Stacks(why_not=why_not)
    if not frames[0].library and core.counter is not None and not any("<signal handler" in line for line in kept):
        place = core.file_at(core.counter)  # gdb before 10 gives no address where a line begins
        frames = (replace(frames[0], file=place, library=base_name(place)), *frames[1:])
    thread = StackDump(frames=frames, thread=str(core.thread), pid=core.pid, current=True)
    return Stacks(threads=(thread,), native=True)


def _backtrace(gdb: str, path: Path, executable: Path, read: list[str], limit: float) -> list[str] | None:
    """What gdb prints when it reads only the usual and the named libraries; None if it does not finish in time."""
    # The process itself chose the name: only plain letters are passed on; any other character matches anything.
    named = [f"sharedlibrary ^{re.sub(r'[^A-Za-z0-9_/-]', '.', name)}$" for name in read]
    command = [gdb, "-nx", "-batch"]
    for setting in (*_SAFE, *_PLAIN):
        command += ["-iex", setting]
    for order in (_READ_USUAL, *named, "bt 80"):
        command += ["-ex", order]
    try:
        done = subprocess.run(
            [*command, str(executable), str(path)],
            capture_output=True,
            timeout=max(limit, 0.1),
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    return done.stdout[: 4 << 20].decode("utf-8", "replace").splitlines()
