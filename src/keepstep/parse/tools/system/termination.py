# SPDX-License-Identifier: Apache-2.0
"""Requests to end: signals as programs, agents and clouds announce them, notices of spot machines."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import TerminationRequested
from keepstep.parse.scan.signature import signature

_NAMES = {1: "SIGHUP", 2: "SIGINT", 10: "SIGUSR1", 12: "SIGUSR2", 15: "SIGTERM", 3: "SIGQUIT"}


def _numbered(match: re.Match[str]) -> Fact | None:
    name = _NAMES.get(int(match["number"]))
    if name is None:
        return None
    groups = match.groupdict()
    pid = groups.get("pid")
    return TerminationRequested(signal=name, pid=int(pid) if pid else None)


SIGNATURES = (
    # torch elastic: the agent itself was asked to end
    signature(r"Received (?:Signals\.)?(?P<number>\d+) death signal, shutting down workers", _numbered),
    signature(r"Process (?P<pid>\d+) got signal: (?P<number>\d+)", _numbered),
    # programs with a handler of their own
    signature(r"[Rr]eceived (?:termination )?[Ss]ignal:? ?\(?(?P<number>15|1|2|10|12)\)?(?!\d)", _numbered),
    signature(r"[Ss]ignal handler called with signal:? (?P<number>15|1|2|10|12)(?!\d)", _numbered),
)
