# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle: its launcher, its crash reports, its loaders and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import FatalSignal, ProcessExited, TerminationRequested
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import integers, signature

_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Process abort signal": "SIGABRT",
    "Access to an undefined portion of a memory object": "SIGBUS",
    "Erroneous arithmetic operation": "SIGFPE",
    "Illegal instruction": "SIGILL",
}


def _detected(match: re.Match[str]) -> Fact | None:
    what = match["what"]
    if what == "Termination signal":
        return TerminationRequested(signal="SIGTERM")
    name = _SIGNALS.get(what)
    return FatalSignal(signal=name) if name else None


def _container(match: re.Match[str]) -> Fact:
    code = int(match["code"])
    signal = {-6: "SIGABRT", -7: "SIGBUS", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}.get(code)
    return ProcessExited(reporter="Paddle's launcher", rank=int(match["rank"]), code=code, signal=signal)


def _aborted(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``the trainer process with rank=[0, 2] was aborted``: the launcher does not say which was first."""
    ranks = integers(match["ranks"])
    for rank in ranks[:64]:
        yield ProcessExited(reporter="Paddle's launcher", rank=rank, code=1, first=len(ranks) == 1)


SIGNATURES = (
    signature(r"`(?P<what>[A-Z][\w ]{4,60})` is detected by the operating system", _detected),
    signature(r"Container rank (?P<rank>\d+) status failed cmd [^\n]{0,2000} code (?P<code>-?\d+)\b", _container),
)

BLOCKS = (
    block(
        r"ABORT!!! Out of all \d+ trainers, the trainer process with rank=\[(?P<ranks>[\d, ]+)\] was aborted", _aborted
    ),
)
