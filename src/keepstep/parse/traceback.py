# SPDX-License-Identifier: Apache-2.0
"""Python tracebacks: plain, chained, grouped, drawn by rich, or only their last line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import ExceptionRaised, Frame
from keepstep.parse.block import block

MOST_LINES = 400
MOST_FRAMES = 200
MOST_MESSAGE_LINES = 40

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_RICH_FRAME = re.compile(r"^(?P<file>/?[\w.\-/<>+@ ]*[\w\-]\.py):(?P<line>\d+) in (?P<function>\S+)")
_GROUP = re.compile(r"^\s*(?:\+[-+ ]*\d* ?-*|\|) ?")
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
_LAST = re.compile(rf"^(?P<type>{_NAME})(?: \(see above for traceback\))?(?::(?: (?P<message>.*))?)?$")
_ERROR_NAME = (
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Failure|Timeout|Exceeded|Died|Killed|Group)"
)
_LONE = rf"^(?:E\s{{3,}})?(?P<type>{_ERROR_NAME}|MisconfigurationException)(?: \(see above for traceback\))?(?:: ?(?P<message>.*))?$"
_CHAINED = re.compile(r"The above exception was the direct cause|During handling of the above exception")
_STARTS_OTHER = re.compile(
    r"Traceback \(most recent call last\)|^\s*\[?\d{4}-\d\d-\d\d|^\[?[IWEF]\d{3,4} \d\d:|^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b"
    r"|^={10,}|^-{10,}|^\[(?:INFO|WARNING|ERROR|DEBUG)\]|NCCL INFO|^\s*\d+/\d+ \[|\d+%\|"
)


def _read(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """One traceback: frames, then the last line and its continuation."""
    frames: list[Frame] = []
    taken = 0
    for line in lines:
        taken += 1
        if taken > MOST_LINES:
            return
        plain = _GROUP.sub("", line) if line.lstrip().startswith(("|", "+")) else line
        frame = _FRAME.match(plain) or _RICH_FRAME.match(plain.strip("│ ").strip())
        if frame:
            if len(frames) < MOST_FRAMES:
                frames.append(
                    Frame(function=(frame["function"] or "<module>").strip(), file=frame["file"], line=int(frame["line"]))
                )
            continue
        if not plain.strip() or plain[:1] in " \t│╭╰|" or plain.startswith(("[Previous line", "...")):
            continue
        if _STARTS_OTHER.search(plain):
            return
        last = _LAST.match(plain.rstrip())
        if last is None:
            continue
        yield from _ending(last["type"], last["message"] or "", tuple(frames), taken, lines)
        return


def _ending(kind: str, message: str, frames: tuple[Frame, ...], taken: int, lines: Iterator[str]) -> Iterator[Fact]:
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
        type=kind,
        message="\n".join(parts)[:4000],
        frames=frames,
        lines=taken + min(extra, MOST_MESSAGE_LINES),
        chained=chained,
    )


def _read_lone(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The last line of a traceback whose head is not there."""
    yield from _ending(match["type"], match["message"] or "", (), 0, lines)


BLOCKS = (
    block(
        r"Traceback \(most recent call last\)",
        _read,
        anchors=("Traceback (most recent call last)",),
        inside_others=False,
    ),
    block(
        _LONE,
        _read_lone,
        anchors=("Error", "Exception", "Interrupt", "SystemExit", "StopIteration", "Timeout", "Failure", "Exceeded"),
        inside_others=False,
    ),
)
