# SPDX-License-Identifier: Apache-2.0
"""Crash handlers of native libraries: absl, glog, folly, c10, UCX, sanitizers, the JVM, C++'s terminate.

Open MPI's own report is in ``mpi/launchers``, the C library's in ``system/glibc``, the kernel's in ``system/kernel``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import FatalSignal, Frame, NativeAbort, NativeFrameSeen
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import by_hand, signature

MOST_LINES = 160
MOST_FRAMES = 100

_CRASHES = r"SIG(?:SEGV|ABRT|BUS|FPE|ILL|SYS|TRAP)"
_NUMBERS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_STACK = (
    # absl and glog: "    @     0x7f2b1c0d5390     1232  tensorflow::Foo::Bar()"
    lazy_pattern(r"^[^@]{0,160}?@ +0x[\da-f]+ +(?:\d+ +)?(?P<function>\S(?:.*\S)?)\s*$"),
    # glibc's backtrace_symbols: "/usr/lib/libfoo.so(symbol+0x1f) [0x7f...]", with a number or without
    lazy_pattern(
        r"^.{0,80}?(?P<library>/[^\s()]{1,400})\((?P<function>[^)+]{0,600})(?:\+0x[\da-f]+)?\) ?\[0x[\da-f]+\]"
    ),
    # UCX: " 0  0x0000000000042520 __sigaction()  ???:0"
    lazy_pattern(r"^.{0,60}?\b\d+ +0x[\da-f]+ (?P<function>\S.*?)\(\) +(?P<source>\S+):\d+"),
    # sanitizers: "    #1 0x7f3b in foo(int) (/usr/lib/libfoo.so+0x1234)" or "... in foo /src/foo.cc:12:3"
    lazy_pattern(
        r"^ *#\d+ 0x[\da-f]+ in (?P<function>.{1,600}?) (?:\((?P<library>/[^\s+)]{1,300})[^)]{0,60}\)|(?P<source>/\S{1,300}))\s{0,20}$"
    ),
    # c10: '  File "<unknown>", line 0, in gloo::allreduce(...)'
    # newer: "frame #1: c10::foo() + 0x1 (0x7f in /usr/lib/libc10.so)"
    lazy_pattern(r'^ *File "(?P<source>[^"]*)", line \d+, in (?P<function>.*\S)\s*$'),
    lazy_pattern(r"^ *frame #\d+: (?P<function>.+?) \+ 0x[\da-f]+ \(0x[\da-f]+ in (?P<library>[^)]+)\)"),
)
_BETWEEN = lazy_pattern(
    r"^\s*$|\bPC: @|^=+ Backtrace|^=+ ?(?:backtrace|$)|\*\*\*|^\s*@ +\.\.\.|\[failure_signal_handler|RAW:|^\[[\w.\-]+:\d+"
)


def _frames(lines: Iterator[str], strangers: int = 4) -> tuple[Frame, ...]:
    """The stack that follows, innermost first."""
    found: list[Frame] = []
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        frame = _frame(line[:3000])
        if frame is not None:
            if len(found) < MOST_FRAMES:
                found.append(frame)
        elif not _BETWEEN.search(line[:300]):
            strangers -= 1
            if strangers < 0:
                break
    return tuple(found)


def _frame(line: str) -> Frame | None:
    for pattern in _STACK:
        match = pattern.match(line)
        if match:
            groups = match.groupdict()
            function = groups["function"].strip() or "???"
            if function.startswith("(unknown)"):
                function = "???"
            library = groups.get("library")
            if library:
                return Frame(function=function, file=library, library=library.rpartition("/")[2])
            return Frame(function=function, file=groups.get("source"), library="")
    return None


def _crashed(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    groups = match.groupdict()
    signal = groups.get("signal") or _NUMBERS.get(int(groups.get("number") or 0))
    if signal is None:
        return
    pid = groups.get("pid")
    yield FatalSignal(signal=signal, pid=int(pid) if pid else None, frames=_frames(lines))


def _of_c10(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    yield FatalSignal(signal="SIGSEGV", frames=_frames(lines))


def _of_sanitizer(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    what = match["what"]
    if what.startswith("SEGV"):
        yield FatalSignal(signal="SIGSEGV", pid=int(match["pid"]), frames=_frames(lines))
    else:
        yield NativeAbort(what=f"{match['tool']}: {what}", frames=_frames(lines))


_WHAT = lazy_pattern(r"what\(\): +(?P<what>.*)")


def _terminate(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``terminate called after throwing an instance of 'X'`` and its ``what()``, which may span several lines."""
    kind = match["kind"]
    words: list[str] = []
    for _, line in zip(range(6), lines, strict=False):
        found = _WHAT.search(line)
        if found:
            words.append(found["what"].strip())
            break
        if line.strip():
            break
    message = f"{kind}: {words[0]}" if words and words[0] else kind
    yield NativeAbort(what=message[:600], where="std::terminate")


def _of_old_glibc(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    yield NativeAbort(what=match["what"].strip(), frames=_frames(lines))


_IN_LIBRARY = r" {1,8}\[(?P<library>[^\]+]{1,200})(?:\+[^\]]{0,40})?\](?: {1,8}(?P<function>\S+))?"


def _java(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The JVM's report; ``# C  [libhdfs.so+0x1f]  name`` is the frame."""
    frames: list[Frame] = []
    for _, line in zip(range(25), lines, strict=False):
        found = re.search(rf"# [CVJj]{_IN_LIBRARY}", line)
        if found:
            frames.append(Frame(function=found["function"] or "???", library=found["library"]))
            break
    yield FatalSignal(signal=match["signal"], pid=int(match["pid"]), frames=tuple(frames))


def _java_frame(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The frame of the JVM's report, where the line that names the signal is missing."""
    for _, line in zip(range(3), lines, strict=False):
        found = re.search(rf"# C{_IN_LIBRARY}", line)
        if found:
            frame = Frame(function=found["function"] or "???", library=found["library"])
            yield NativeAbort(what="the JVM crashed in native code", where=found["library"], frames=(frame,))
            return


def _fatal_line(match: re.Match[str]) -> Fact | None:
    """A line of level F: the process ends itself right after it."""
    return NativeAbort(what=match["what"].strip()[:600], where=match["where"])


_SOURCE = r"(?P<where>[\w./\-+]{1,200}\.(?:cc|cpp|cxx|cu|h|hpp|cuh|c|inc):\d+)"

BLOCKS = (
    # absl: *** SIGSEGV received at time=1651234567 on cpu 12 ***
    block(rf"\*\*\* (?P<signal>{_CRASHES}) received at time=", _crashed),
    # glog: *** SIGSEGV (@0x8) received by PID 27 (TID 0x7f..) from PID 8; stack trace: ***
    # libtpu: *** SIGSEGV (@(nil)), see go/stacktraces#s15 received by PID 160 (TID 3418) on cpu 100; stack trace: ***
    block(
        rf"\*\*\* (?P<signal>{_CRASHES}) (?:\(@(?:0x[\da-f]+|\(nil\))\),? )?(?:see [^\n]{{0,60}}? )?received by PID (?P<pid>\d+)",
        _crashed,
    ),
    # TensorFlow: *** Received signal 7 ***, then *** BEGIN MANGLED STACK TRACE ***
    block(r"\*\*\* Received signal (?P<number>\d{1,2}) \*\*\*", _crashed),
    # folly: *** Signal 11 (SIGSEGV) (0x8) received by PID 123
    block(rf"\*\*\* Signal \d+ \((?P<signal>{_CRASHES})\)[^\n]{{0,60}} received by PID (?P<pid>\d+)", _crashed),
    # UCX: [host:123:0:123] Caught signal 11 (Segmentation fault: address not mapped ...)
    block(r"(?::(?P<pid>\d+):\d+:\d+\] )?Caught signal (?P<number>\d+) \(", _crashed),
    block(r"!!!!!!! Segfault encountered !!!!!!!", _of_c10),
    block(
        r"==(?P<pid>\d+)==\s?ERROR: (?P<tool>(?:Address|Memory|Thread|UndefinedBehavior|Leak)Sanitizer): (?P<what>SEGV|[\w\-]+)",
        _of_sanitizer,
    ),
    # glibc before 2.27: *** Error in `python': free(): invalid pointer: 0x00007f.. ***, with a backtrace
    block(r"\*\*\* Error in `[^'\n]{1,300}': (?P<what>[^\n]{1,100}?): 0x[\da-f]+ \*\*\*", _of_old_glibc),
    block(r"terminate called after throwing an instance of '(?P<kind>[^'\n]{1,300})'", _terminate),
    block(rf"#? *(?P<signal>{_CRASHES}) \(0x[\da-f]+\) at pc=0x[\da-f]+, pid=(?P<pid>\d+)", _java),
    block(r"# Problematic frame:", _java_frame, inside_others=False),
)

SIGNATURES = (
    signature(r"(?P<what>terminate called without an active exception|terminate called recursively)", NativeAbort),
    signature(r"libc\+\+abi(?:\.dylib)?: (?P<what>terminating[^\n]{0,300})", NativeAbort),
    signature(r"LLVM ERROR: (?P<what>[^\n]{1,300})", NativeAbort),
    # TensorFlow: 2024-06-07 10:10:14.749: F tensorflow/core/foo.cc:12] Check failed: ...
    signature(
        rf"(?:^|[\s:\]])F {_SOURCE}\] ?(?P<what>[^\n]{{1,600}})",
        _fatal_line,
        anchors=by_hand(
            "a capital F and any source file: too short to look for",
            "F tensorflow/",
            "F external/",
            "F xla/",
            "F third_party/",
            "F ./",
            "F jaxlib/",
            "F tsl/",
            "F horovod/",
        ),
    ),
    signature(rf"(?:^|[\s:\[(])F0000 00:00:\d+\.\d+ +\d+ +{_SOURCE}\] ?(?P<what>[^\n]{{1,600}})", _fatal_line),
    # one line of a stack whose beginning is missing; glog: @     0x7fa3d072f46c do_rallocx
    signature(
        r"@ +0x[\da-f]{6,16} +(?P<function>[\w(~]\S*)",
        NativeFrameSeen,
        anchors=by_hand("an at sign and a number: glog pads it with five blanks", "@     0x"),
    ),
    # Open MPI: [host:123] [ 3] /lib/libmpi.so.40(ompi_send+0x45)[0x7f5dcfe43885]; glibc: the same without its head
    signature(
        r"(?:^|\] (?:\[ ?\d+\] )?)(?P<library>/[^\s(]{1,300})\((?P<function>[^)+\n]{0,300})\+0x[\da-f]+\) ?\[0x[\da-f]+\]",
        NativeFrameSeen,
    ),
)

# A fatal line of glog and absl ends its process, so it is near the end. Its beginning is too short to search for.
LAST_WORDS = (
    # F0607 10:10:14.749000 1234 foo.cc:12] Check failed: ...
    signature(
        rf"(?:^|[\s:\[(])F(?:20\d\d)?[01]\d[0-3]\d \d\d:\d\d:\d\d(?:\.\d+)? +\d+ +{_SOURCE}\] ?(?P<what>[^\n]{{1,600}})",
        _fatal_line,
        anchors=by_hand("a time of day: absl prints this one before its clock is known", "F0000 00:00:"),
    ),
    # one line of a stack whose beginning is missing; glog: @     0x7fa3d072f46c do_rallocx
    signature(
        r"@ +0x[\da-f]{6,16} +(?P<function>[\w(~]\S*)",
        NativeFrameSeen,
        anchors=by_hand("an at sign and a number: glog pads it with five blanks", "@     0x"),
    ),
    # Open MPI: [host:123] [ 3] /lib/libmpi.so.40(ompi_send+0x45)[0x7f5dcfe43885]; glibc: the same without its head
    signature(
        r"(?:^|\] (?:\[ ?\d+\] )?)(?P<library>/[^\s(]{1,300})\((?P<function>[^)+\n]{0,300})\+0x[\da-f]+\) ?\[0x[\da-f]+\]",
        NativeFrameSeen,
    ),
)
