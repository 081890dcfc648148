# SPDX-License-Identifier: Apache-2.0
"""UCX's own crash report: ``Caught signal 11 (Segmentation fault ...)`` and its backtrace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import FatalSignal, Frame
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.parse.block import block

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_FRAME = lazy_pattern(r"^\s*\d+\s+(?:0x[\da-f]+ )?(?P<function>[^\s(]+)\(.*?\)\s+(?P<file>\S+):\d+")


def _report(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    frames: list[Frame] = []
    for _, line in zip(range(80), lines, strict=False):
        if line.startswith("====") and "backtrace" not in line:
            break
        frame = _FRAME.match(line)
        if frame:
            file = frame["file"]
            library = file.rpartition("/")[2] if ".so" in file else None
            frames.append(Frame(function=frame["function"], file=file, library=library))
    number = int(match["number"])
    yield FatalSignal(
        signal=_SIGNALS.get(number, f"signal {number}"),
        pid=int(match["pid"]) if match["pid"] else None,
        library=next((f.library for f in frames if f.library), None),
        frames=tuple(frames),
    )


BLOCKS = (
    block(
        r"(?:\[[\w.\-]+:(?P<pid>\d+) ?:[\d: ]+\] )?Caught signal (?P<number>4|6|7|8|11) \(",
        _report,
        anchors=("Caught signal ",),
    ),
)
