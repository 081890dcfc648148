# SPDX-License-Identifier: Apache-2.0
"""Deep learning on Flink (dl-on-flink, flink-ai-extended): nodes that ended, or that its master restarts."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import MemberRestarted
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import signature

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
_NODE = r"(?P<role>worker|ps|chief|am):(?P<index>\d+)"


def _rank(match: re.Match[str]) -> int | None:
    return int(match["index"]) if match["role"] == "worker" else None


def _restarted(match: re.Match[str]) -> Fact:
    return MemberRestarted(member=f"{match['role']}:{match['index']}", rank=_rank(match))


def _ended(match: re.Match[str]) -> Fact | None:
    code = int(match["code"])
    if not code:
        return None
    signal = _SIGNALS.get(code - 128)
    return ProcessExited(
        reporter="Flink",
        rank=_rank(match),
        code=None if signal else code,
        signal=signal,
        node=f"{match['role']}:{match['index']}",
    )


SIGNATURES = (
    signature(rf"{_NODE} heartbeat wrong version \d+", _restarted),
    signature(rf"{_NODE} python process exited with code (?P<code>\d{{1,3}})\b", _ended),
)
