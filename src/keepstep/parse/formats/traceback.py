# SPDX-License-Identifier: Apache-2.0
"""Python tracebacks: plain, chained, grouped, drawn by rich, or only their last line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.process import ExceptionRaised, Frame, TracebackCut
from keepstep.parse.formats.one_line_traceback import is_in_one_line, read_in_one_line
from keepstep.parse.scan.block import block
from keepstep.parse.tools.tensorflow.status import KERNEL_FAILED, KERNEL_STATUS, STATUS, type_of

MOST_LINES = 400
MOST_FRAMES = 200
MOST_MESSAGE_LINES = 40
LINES_AFTER_A_CUT = 4
INNERMOST = 3
A_STACK = 3
"""Fewer frames at the end of a log, with neither a beginning nor an exception, may be anything."""
LONGEST_CODE = 240
CATCHES = ("_exit_barrier", "safe_import", "safe_import_from", "discover_pjrt_plugins")
"""Functions that log any exception raised below them and go on: torchelastic's exit barrier, optional modules, JAX's
plugins (each job with the CUDA plugin on a host without a GPU)."""

_FRAME = lazy_pattern(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_RICH_FRAME = lazy_pattern(r"^(?P<file>/?[\w.\-/<>+@ ]*[\w\-]\.py):(?P<line>\d+) in (?P<function>\S+)")
_GROUP = lazy_pattern(r"^\s*(?:\+[-+ ]*\d* ?-*|\|) ?")
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
_LAST = lazy_pattern(rf"^(?P<type>{_NAME})(?: \(see above for traceback\))?(?::(?: (?P<message>.*))?)?$")
_ERROR_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Failure|Timeout|Exceeded|Died|Killed|Group)"
_GLUED = lazy_pattern(rf"^(?P<one>{_ERROR_NAME})(?P=one)+$")
"""Processes that fail at once and share a terminal leave the name twice: FileNotFoundErrorFileNotFoundError: ..."""
# JAX raises its own exception again, with all frames, under this name
_LONE = rf"^(?:E\s{{3,}})?(?:[\w.]*UnfilteredStackTrace: )?(?P<type>{_ERROR_NAME}|MisconfigurationException)(?: \(see above for traceback\))?(?:: ?(?P<message>.*))?$"
_KERNEL_FAILED = lazy_pattern(KERNEL_FAILED)
# torch's distributed checkpoint says whose exception it passes on: Traceback (most recent call last): (RANK 3)
_OF_RANK = lazy_pattern(r":? ?\(RANK (?P<rank>\d+)\)")
_CHAINED = lazy_pattern(r"The above exception was the direct cause|During handling of the above exception")
_STARTS_OTHER = lazy_pattern(
    r"Traceback \(most recent call last\)|^\s*\[?\d{4}-\d\d-\d\d|^\[?[IWEF]\d{3,4} \d\d:|^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b"
    r"|^={10,}|^-{10,}|^\[(?:INFO|WARNING|ERROR|DEBUG)\]|NCCL INFO|^\s*\d+/\d+ \[|\d%\|"
    r"|^Exception (?:in thread|ignored in)\b"
)


def _read(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """One traceback: frames, then the last line and its continuation."""
    if is_in_one_line(match.string[match.end() :]):
        yield from read_in_one_line(match.string)
        return
    frames: list[Frame] = []
    code: list[str] = []
    taken = 0
    since = 0
    deep = 0
    told = _OF_RANK.match(match.string, match.end())
    rank = int(told["rank"]) if told else None
    for line in lines:
        taken += 1
        since += 1
        if taken > MOST_LINES:
            return
        plain = _GROUP.sub("", line) if line.lstrip().startswith(("|", "+")) else line
        frame = _FRAME.match(plain) or _RICH_FRAME.match(plain.strip("│ ").strip())
        if frame:
            since = 0
            deep = deep or len(plain) - len(plain.lstrip())
            code.append("")
            if len(frames) < MOST_FRAMES:
                frames.append(
                    Frame(
                        function=(frame["function"] or "<module>").strip(), file=frame["file"], line=int(frame["line"])
                    )
                )
            continue
        _note(code, plain)
        if plain[:1] == " " and _ends_indented(plain, deep):
            plain = plain.lstrip()
        elif not plain.strip() or plain[:1] in " \t│╭╰|" or plain.startswith(("[Previous line", "...")):
            continue
        if _STARTS_OTHER.search(plain):
            return
        last = _LAST.match(plain.rstrip())
        if last is None:
            continue
        yield from _ending(last["type"], last["message"] or "", tuple(frames), taken, lines, rank, code)
        return
    if frames and since <= LINES_AFTER_A_CUT:
        yield TracebackCut(frames=tuple(frames), rank=rank)


def _ends_indented(line: str, deep: int) -> bool:
    """Whether a line less indented than the frames names an exception: in a table the whole traceback is indented."""
    return deep > 2 and len(line) - len(line.lstrip()) <= deep - 2 and bool(re.match(_LONE, line.strip()))


def _note(code: list[str], line: str) -> None:
    """The source line below a frame; rich marks it."""
    drawn = line.partition("❱")[2]
    if drawn and code:
        code[-1] = drawn.rpartition("│   ")[2].strip(" │")[:LONGEST_CODE]
    elif code and not code[-1] and line[:1] in " \t":
        code[-1] = line.strip()[:LONGEST_CODE]


def _ending(
    kind: str,
    message: str,
    frames: tuple[Frame, ...],
    taken: int,
    lines: Iterator[str],
    rank: int | None = None,
    code: Sequence[str] = (),
) -> Iterator[Fact]:
    glued = _GLUED.match(kind)
    if glued:
        kind, message = glued["one"], message.lstrip(": ")
    parts = [message] if message else []
    chained = False
    blank = 0
    extra = 0
    for line in lines:
        extra += 1
        if _CHAINED.search(line):
            chained = True
            break
        if extra > MOST_MESSAGE_LINES or _STARTS_OTHER.search(line) or _FRAME.match(line):
            break
        if not line.strip():
            blank += 1
            if blank > 2:
                break
            continue
        if blank and re.match(_LONE, line):
            break
        if blank == 0 or len(parts) < 12:
            parts.append(line.strip())
    yield ExceptionRaised(
        rank=rank,
        type=kind,
        message="\n".join(parts)[:4000],
        frames=frames,
        lines=taken + min(extra, MOST_MESSAGE_LINES),
        chained=chained,
        caught=any(frame.function.rpartition(".")[2] in CATCHES for frame in frames),
        code=tuple(code[-INNERMOST:]),
    )
    if kind.rpartition(".")[2] == "JSONDecodeError" and any("TF_CONFIG" in line for line in code):
        yield ClusterSpecInvalid(detail=f"TF_CONFIG is not JSON: {message}")


def _read_headless(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A traceback that was copied without its first lines: frames in a row, then an exception by name."""
    frames: list[Frame] = []
    code: list[str] = []
    line: str | None = match.string
    for taken in range(MOST_LINES):
        if line is None:
            if len(frames) >= A_STACK:
                yield TracebackCut(frames=tuple(frames))
            return
        frame = _FRAME.match(line)
        if frame:
            code.append("")
            if len(frames) < MOST_FRAMES:
                frames.append(
                    Frame(
                        function=(frame["function"] or "<module>").strip(), file=frame["file"], line=int(frame["line"])
                    )
                )
        elif line.strip() and line[:1] not in " \t" and not line.startswith("[Previous line"):
            last = re.match(_LONE, line)
            if last:
                yield from _ending(last["type"], last["message"] or "", tuple(frames), taken, lines, code=code)
            return
        else:
            _note(code, line)
        line = next(lines, None)


def _read_lone(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The last line of a traceback whose beginning is missing."""
    yield from _ending(match["type"], match["message"] or "", (), 0, lines)


def _read_status(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The first root error that TensorFlow lists, where the exception that lists it does not exist."""
    yield ExceptionRaised(type=type_of(match["code"]), message=match["message"].strip())


def _read_last_status(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The error of a TensorFlow kernel, where the log says nothing after it."""
    for number, line in enumerate(lines):
        if number > MOST_MESSAGE_LINES or (line.strip() and "[[" not in line and not _KERNEL_FAILED.search(line)):
            return
    yield from _read_status(match, lines)


BLOCKS = (
    block(r"Traceback \(most recent call last\)", _read, inside_others=False),
    block(r'^\s*File "[^"]+", line \d+, in \S', _read_headless, inside_others=False),
    # a warning is raised only where a traceback says so
    block(_LONE.replace("^", r"^(?![\w.]{0,120}Warning\b)", 1), _read_lone, inside_others=False),
    block(rf"^\s*\(0\) +(?P<code>{STATUS}): +(?P<message>\S.*)$", _read_status, inside_others=False),
    block(rf"{KERNEL_FAILED}(?P<code>{KERNEL_STATUS}): +(?P<message>\S.*)$", _read_last_status, inside_others=False),
)
