# SPDX-License-Identifier: Apache-2.0
"""Spark and YARN under Horovod and TensorFlowOnSpark: lost executors and containers, reservations."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import Contention, OomKilled
from keepstep.parse.scan.signature import signature

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def _killed(match: re.Match[str]) -> Fact:
    used = re.search(r"(?P<used>(?<![\d.])[\d.]{1,20} ?[KMGT]i?B) of (?P<limit>[\d.]+ ?[KMGT]i?B)", match.string)
    return OomKilled(by="YARN", limit=used["limit"] if used else None)


def _ended(match: re.Match[str]) -> Fact | None:
    """Exit codes of containers: 128 and a signal, or a reason of YARN's own below 0."""
    code = int(match["code"])
    if code in (-103, -104):
        return OomKilled(by="YARN")
    if code in (-100, -102):
        return Preempted(by="YARN", reason="the node was lost" if code == -100 else "preempted by the scheduler")
    if code == 0 or code == 143:
        return None
    signal = _SIGNALS.get(code - 128)
    return ProcessExited(reporter="YARN", code=None if signal else code, signal=signal)


SIGNATURES = (
    signature(r"Container killed by YARN for exceeding (?:physical |virtual )?memory limits", _killed),
    signature(
        r"is running (?:beyond|\d+B beyond the) (?:'?(?:PHYSICAL|VIRTUAL)'?|physical|virtual) memory limits?", _killed
    ),
    signature(
        r"(?:Container killed on request\. Exit code is|Container exited with a non-zero exit code|Exit status:) (?P<code>-?\d+)",
        _ended,
    ),
    signature(
        r"Container released on a \*lost\* node|Container preempted by scheduler",
        lambda m: Preempted(by="YARN", reason="the node was lost" if "lost" in m[0] else "preempted by the scheduler"),
    ),
    # TensorFlowOnSpark
    signature(
        r"Unable to find (?P<n>\d+) free GPU\(s\)|Unable to allocate \d+ GPU\(s\) from available GPUs"
        r"|Unable to find available GPUs: requested=\d+, available=\d+",
        lambda m: Contention(what="no GPU of this host was free"),
    ),
)
