# SPDX-License-Identifier: Apache-2.0
"""Python's faulthandler and its fatal errors: which signal, and every thread's stack, innermost first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import FatalSignal, Frame, NativeAbort, StackDump
from keepstep.parse.scan.block import block
from keepstep.signals.stacks import Whose, whose

MOST_LINES = 400
MOST_FRAMES = 150
MOST_STRANGERS = 6
"""How many other lines may come in between (a second writer without a prefix)."""

SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
    "Fatal signal": "SIGSEGV",
    "Bad system call": "SIGSYS",
}

_FRAME = lazy_pattern(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*\S)\s*$')
_NATIVE = lazy_pattern(r'^\s*Binary file "(?P<file>[^"]*)"(?:, at (?P<function>\S+?))?(?:\+0x[\da-f]+)? \[0x[\da-f]+\]')
_THREAD = lazy_pattern(r"(?P<current>Current t|T)hread (?:0x)?[\da-f]+ (?:\[[^\]]*\] )?\(most recent call first\)")
_C_STACK = lazy_pattern(r"Current thread's C stack trace \(most recent call first\)")
_EXTENSIONS = lazy_pattern(r"^Extension modules: (?P<names>.+?)(?: \(total: \d+\))?\s{0,40}$")
_OF_BLOCK = lazy_pattern(
    r"^\s*$|^Python runtime state|^\s*<no Python frame>|^\s*\.\.\.|^\s+<(?:timed out|truncated)|^\s*Garbage-collecting"
)
_EMPTY = lazy_pattern(r"<no Python frame>")


def _fatal(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``Fatal Python error: Segmentation fault`` and the stack of the current thread."""
    what = match["what"].strip()
    threads: list[list[Frame]] = []
    current: list[Frame] | None = None
    native: list[Frame] = []
    extensions: tuple[str, ...] = ()
    reading: list[Frame] | None = None
    strangers = 0
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        frame = _python_frame(line) or _native_frame(line)
        if frame is not None:
            if reading is not None and len(reading) < MOST_FRAMES:
                reading.append(frame)
        elif thread := _THREAD.search(line):
            reading = []
            threads.append(reading)
            if thread["current"] == "Current t":
                current = reading
        elif _C_STACK.search(line):
            reading = native
        elif listed := _EXTENSIONS.match(line):
            extensions = tuple(name.strip() for name in listed["names"].split(",") if name.strip())[:2000]
            break
        elif not _OF_BLOCK.match(line):
            strangers += 1
            if strangers > MOST_STRANGERS:
                break
    frames = tuple(native + (current if current is not None else _likely(threads)))
    signal = next((name for words, name in SIGNALS.items() if what.startswith(words)), None)
    if signal is not None:
        yield FatalSignal(signal=signal, frames=frames, extensions=extensions)
    else:
        yield NativeAbort(what=f"Fatal Python error: {what}"[:500], frames=frames)


def _likely(threads: list[list[Frame]]) -> list[Frame]:
    """The thread that crashed, where none is marked current: one inside a framework, else the main thread."""
    inside = (frames for frames in threads if frames and whose(frames[0]) is Whose.FRAMEWORK)
    return next(inside, threads[-1] if threads else [])


def _thread(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The stack of one thread, of a crash or of a live process that was asked for it."""
    frames: list[Frame] = []
    strangers = 0
    for _, line in zip(range(MOST_FRAMES + MOST_STRANGERS), lines, strict=False):
        frame = _python_frame(line)
        if frame is not None:
            frames.append(frame)
        elif not line.strip() or _THREAD.search(line) or _EXTENSIONS.match(line) or _EMPTY.search(line):
            break
        else:
            strangers += 1
            if strangers > MOST_STRANGERS:
                break
    if frames:
        number = re.search(r"0x[\da-f]+", match[0])
        yield StackDump(
            frames=tuple(frames), thread=number[0] if number else None, current=match["current"] == "Current t"
        )


def _python_frame(line: str) -> Frame | None:
    match = _FRAME.match(line[:2000])
    if match is None:
        return None
    return Frame(function=match["function"], file=match["file"], line=whole(match["line"]))


def _native_frame(line: str) -> Frame | None:
    match = _NATIVE.match(line[:2000])
    if match is None:
        return None
    return Frame(function=match["function"] or "???", file=match["file"], library=match["file"].rpartition("/")[2])


BLOCKS = (block(r"Fatal Python error: (?P<what>[^\n]{1,300})", _fatal), block(_THREAD.pattern, _thread))
