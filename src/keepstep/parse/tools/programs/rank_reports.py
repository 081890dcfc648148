# SPDX-License-Identifier: Apache-2.0
"""Reports that name the rank that failed: LSF's jsrun, Cray's aprun, Flux, Ray Train, and programs in plain words."""

from __future__ import annotations

import re
import signal as _signals

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.system.shell import SIGNALS


def _by_number(match: re.Match[str]) -> Fact:
    try:
        name = _signals.Signals(int(match["number"])).name
    except ValueError:
        name = f"signal {match['number']}"
    return ProcessExited(reporter="jsrun", rank=int(match["rank"]), signal=name, first=True)


def _by_name(match: re.Match[str]) -> Fact:
    return ProcessExited(reporter="aprun", rank=int(match["rank"]), signal=SIGNALS.get(match["how"]), code=1)


SIGNATURES = (
    signature(r"\(first noticed rank (?P<rank>\d+)\) terminated with signal (?P<number>\d+)", _by_number),
    signature(
        r"^Application \d{1,12} exit signals: (?P<how>[A-Z][a-z]+(?: [a-z]+){0,2})",
        lambda m: ProcessExited(reporter="aprun", signal=SIGNALS.get(m["how"]), code=1),
    ),
    signature(r"PE RANK (?P<rank>\d+) exit signal (?P<how>[A-Z][a-z]+(?: [a-z]+){0,2})", _by_name),
    # Sample Factory's runner, on a part of it that no longer answers
    signature(
        r"Stopping training due to lack of heartbeats from (?P<what>[^\n]{1,160})",
        lambda m: RanksMissing(missing=(), what=f"heartbeats of {m['what']}"),
    ),
)
