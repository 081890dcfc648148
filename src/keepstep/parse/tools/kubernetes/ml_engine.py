# SPDX-License-Identifier: Apache-2.0
"""Google's managed training (Cloud ML Engine, AI Platform, Vertex AI) and SageMaker: how replicas ended."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.signature import signature

_SIGNALS = {9: "SIGKILL", 6: "SIGABRT", 11: "SIGSEGV", 15: "SIGTERM"}


def _rank(match: re.Match[str]) -> int | None:
    """Replicas of workers are ranks; a master or chief is 0; parameter servers are none."""
    role = match["role"].lower()
    if role in ("master", "chief"):
        return 0
    return int(match["index"]) if role.startswith("worker") and match["index"] else None


def _ended(match: re.Match[str]) -> Fact:
    status = abs(int(match["status"]))
    number = status - 128 if status > 128 else status
    signal = _SIGNALS.get(number) if status > 128 or "SIG" in (match["rest"] or "") else None
    return ProcessExited(
        reporter="the training service",
        rank=_rank(match),
        code=None if signal else status,
        signal=signal,
        node=f"{match['role']} {match['index'] or ''}".strip(),
    )


_REPLICA = r"The replica (?P<role>[a-z][\w\-]*?)[ \-](?P<index>\d+)?"

SIGNATURES = (
    signature(
        rf"{_REPLICA} (?:ran out[- ]of[- ]memory|exited because it ran out of memory)",
        lambda m: OomKilled(
            by="the training service", rank=_rank(m), process=f"{m['role']} {m['index'] or ''}".strip()
        ),
    ),
    signature(rf"{_REPLICA} exited with a non-zero status of (?P<status>-?\d+)(?P<rest>\(SIG\w+\))?", _ended),
    signature(
        r"Command '\[?[^\n]{1,2000}' returned non-zero exit status -9\b",
        lambda m: ProcessExited(reporter="the launcher", signal="SIGKILL"),
    ),
    signature(
        r"AlgorithmError: (?P<what>[^\n]{0,40}), exit code: (?P<code>\d+)",
        lambda m: (
            None
            if m["code"] == "1"
            else ProcessExited(
                reporter="SageMaker",
                code=None if int(m["code"]) - 128 in _SIGNALS else int(m["code"]),
                signal=_SIGNALS.get(int(m["code"]) - 128),
            )
        ),
    ),
)
