# SPDX-License-Identifier: Apache-2.0
"""Reports that name the rank that failed: LSF's jsrun, Cray's aprun, Flux, Ray Train, and programs in plain words."""

from __future__ import annotations

import re
import signal as _signals

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited, TaskNamed
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.signature import by_hand, signature
from keepstep.parse.tools.system.shell import SIGNALS


def _by_number(match: re.Match[str]) -> Fact:
    try:
        name = _signals.Signals(int(match["number"])).name
    except ValueError:
        name = f"signal {match['number']}"
    return ProcessExited(reporter="jsrun", rank=int(match["rank"]), signal=name, first=True)


def _by_name(match: re.Match[str]) -> Fact:
    return ProcessExited(reporter="aprun", rank=int(match["rank"]), signal=SIGNALS.get(match["how"]), code=1)


_BAD = ("ailed", "ailure", "rror", "xception", "rashed", "occurred", "raised", "happened")

SIGNATURES = (
    signature(r"\(first noticed rank (?P<rank>\d+)\) terminated with signal (?P<number>\d+)", _by_number),
    signature(r"PE RANK (?P<rank>\d+) exit signal (?P<how>[A-Z][a-z]+(?: [a-z]+){0,2})", _by_name),
    signature(
        r"flux-shell\[\d+\]: (?:FATAL|ERROR): task (?P<rank>\d+) \(host",
        ProcessExited,
        reporter="flux",
        code=1,
        first=True,
    ),
    # Ray Train may restart it: this says whose the error nearby is, not that the run ended
    signature(r"\bWorker (?P<rank>\d+) has failed\.", TaskNamed),
    # verl names the actors of a pool by its group and the place in it; in the first group that is the rank
    signature(r"\bname: \w*WorkerDict_0:(?P<rank>\d{1,4})\b", TaskNamed),
    # the log that each rank writes for itself and could not
    signature(
        r"\[Errno \d+\] [^\n']{0,60}'[^'\n]{0,400}?\blog[_.-]rank[_-]?(?P<rank>\d{1,5})\.(?:log|txt|out|err)'",
        TaskNamed,
    ),
    # said by programs: Training failed on rank 3: ..., Exception in rank 3
    signature(
        r"\b(?:[Ff]ailed|[Ff]ailure|[Ee]rror|[Ee]xception|[Cc]rashed)(?: occurred| raised| happened)? (?:on|in|at) (?:global |process )?rank[ :=]? ?"
        r"(?P<rank>\d{1,5})\b",
        TaskNamed,
        anchors=by_hand(
            "errors and ranks are on many lines",
            *(
                f"{word} {at} {which}rank"
                for word in _BAD
                for at in ("on", "in", "at")
                for which in ("", "global ", "process ")
            ),
        ),
    ),
    # Sample Factory's runner, on a part of it that no longer answers
    signature(
        r"Stopping training due to lack of heartbeats from (?P<what>[^\n]{1,160})",
        lambda m: RanksMissing(missing=(), what=f"heartbeats of {m['what']}"),
    ),
)
