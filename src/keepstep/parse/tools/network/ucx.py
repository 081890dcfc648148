# SPDX-License-Identifier: Apache-2.0
"""UCX: its crash report (``Caught signal 11 ...`` and a backtrace); what it could not connect, create or share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectFailed
from keepstep.model.facts.process import FatalSignal, Frame
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.network.sockets import why

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


BLOCKS = (block(r"(?:\[[\w.\-]+:(?P<pid>\d+) ?:[\d: ]+\] )?Caught signal (?P<number>4|6|7|8|11) \(", _report),)

_ERROR = r"UCX {1,4}(?:ERROR|FATAL) {1,4}"

SIGNATURES = (
    signature(
        _ERROR + r"connect\(fd=\d+, dest_addr=(?P<peer>\S{1,80})\) failed: (?P<text>[^\n]{3,60})",
        lambda m: ConnectFailed(why=why(m["text"]), peer=m["peer"]),
    ),
)
