# SPDX-License-Identifier: Apache-2.0
"""What ``py-spy dump`` and ``pystack`` print about a live process: the stack of every thread.

``Thread 1234 (active+gil): "MainThread"`` and lines as ``all_reduce (torch/distributed/distributed_c10d.py:3252)``,
innermost first, with paths that are cut at the folder that Python found them in; or ``Traceback for thread 1234
(python) [Has the GIL] (most recent call last):`` and lines as ``(Python) File "train.py", line 88, in step``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame, StackDump
from keepstep.parse.scan.block import block
from keepstep.signals.stacks import Whose, whose

MOST_FRAMES = 150
MOST_STRANGERS = 4
"""How many other lines may come in between, such as the arguments that ``--locals`` shows."""

LONGEST_FRAME = 600
_FRAME = lazy_pattern(
    r"^\s*(?P<function>[\w.<>:~\[\] ,*&]{1,200}?) \((?P<file>[^()\n]{1,300}?)(?::(?P<line>\d+))?\)\s*$",
    most=LONGEST_FRAME,
)
_THREAD = lazy_pattern(r"\bThread (?:(?:0x)?[\dA-Fa-f]+ )?\((?:active|idle)(?:\+gil)?\)")
_OF_PYSTACK = lazy_pattern(
    r'^\s*\((?P<kind>Python|C)\) File "(?P<file>[^"\n]{1,300})", line (?P<line>\d+), in (?P<function>\S.{0,200}?)\s*$',
    most=LONGEST_FRAME,
)
_SHOWN = lazy_pattern(r"^\s+(?:Arguments:|Locals:|[\w.]+: )")


def _thread(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    frames: list[Frame] = []
    strangers = 0
    for _, line in zip(range(MOST_FRAMES * 2), lines, strict=False):
        if not line.strip() or _THREAD.search(line):
            break
        found = _FRAME.match(line)
        if found is not None:
            frames.append(_frame(found))
        elif not _SHOWN.match(line):
            strangers += 1
            if strangers > MOST_STRANGERS:
                break
    if frames:
        name = match["name"]
        yield StackDump(
            frames=tuple(frames[:MOST_FRAMES]),
            thread=name or match["number"],
            current=name == "MainThread" or frames[-1].function == "<module>",
            holds_gil=match["gil"] is not None,
            living=True,
        )


def _pystack(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    frames: list[Frame] = []
    for _, line in zip(range(MOST_FRAMES * 2), lines, strict=False):
        found = _OF_PYSTACK.match(line)
        if found is not None:
            library = found["file"].rpartition("/")[2] if found["kind"] == "C" else None
            frames.append(
                Frame(function=found["function"], file=found["file"], line=int(found["line"]), library=library)
            )
        elif not line.strip() or "Traceback for thread" in line:
            break
    if frames:
        whole = frames[0].function == "<module>" or any(f.function == "<module>" for f in frames[:3])
        yield StackDump(
            frames=tuple(reversed(frames)),
            thread=match["number"],
            current=whole,
            holds_gil="Has the GIL" in match[0],
            living=True,
        )


def _frame(match: re.Match[str]) -> Frame:
    path, function = match["file"], match["function"].strip()
    if match["line"] is None:
        return Frame(function=function, file=path, library=path.rpartition("/")[2])
    return Frame(function=function, file=_whole(path), line=int(match["line"]))


def _whole(path: str) -> str:
    """The path with the folder that was cut off it, as far as its first part tells."""
    top = path.partition("/")[0].removesuffix(".py")
    if path.startswith(("/", "<", ".")):
        return path
    if top in sys.stdlib_module_names:
        return f"lib/python3/{path}"
    installed = f"site-packages/{path}"
    return installed if "/" in path and whose(Frame(function="", file=installed)) is Whose.FRAMEWORK else path


BLOCKS = (
    block(
        r"\bThread (?:(?P<number>(?:0x)?[\dA-Fa-f]{1,18}) )?\((?:active|idle)(?P<gil>\+gil)?\)(?:: \"(?P<name>[^\"\n]{1,100})\")?",
        _thread,
    ),
    block(r"Traceback for thread (?P<number>\d{1,18}) [^\n]{0,80}\(most recent call last\)", _pystack),
)
