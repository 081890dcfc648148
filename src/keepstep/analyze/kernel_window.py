# SPDX-License-Identifier: Apache-2.0
"""What this host's kernel said in the minutes in which the run broke, and of its processes only.

Other programs are killed and crash on the same host: a kernel line counts when it names
a process that the logs name too; a kill for memory also where they name none and it was
a Python process; a fault of the hardware when the run broke.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from keepstep.analyze.known import known
from keepstep.core.evidence import Coverage, Evidence, EvidenceSet, Origin
from keepstep.core.facts import platform
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import FatalSignal
from keepstep.core.facts.resource import OomKilled
from keepstep.parse.logscan import LogScan
from keepstep.sources.kernel_log import read_kernel_log

BEFORE_S = 60.0
AFTER_S = 60.0
OLDEST_S = 7 * 86400.0

_PYTHON = re.compile(r"\b(?:python|pt_main_thread|pt_data_worker|ray::)")


def kernel_evidence(evidence: Sequence[Evidence[Fact]]) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """Kernel facts that belong to the run. Logs without times, or old ones, leave nothing to look for."""
    times = [e.at for e in evidence if e.at is not None]
    now = time.time()
    if not times or not now - OLDEST_S < max(times) <= now + 60:
        return [], []
    lines, coverage = read_kernel_log(max(times) - BEFORE_S, max(times) + AFTER_S)
    pids = {pid for e in evidence if isinstance(pid := getattr(e.fact, "pid", None), int)}
    broken = EvidenceSet(items=tuple(evidence)).broken
    found: list[Evidence[Fact]] = []
    for at, text in lines:
        for sighting in LogScan(known()).scan([text.encode()]):
            if _belongs(sighting.fact, text, pids, broken):
                origin = Origin(source="kernel log", line=None)
                found.append(Evidence(fact=sighting.fact, origin=origin, at=at, quote=sighting.quote))
    return found, coverage


def _belongs(fact: Fact, text: str, pids: set[int], broken: bool) -> bool:
    pid = getattr(fact, "pid", None)
    if isinstance(fact, OomKilled):
        return pid in pids or (not pids and _PYTHON.search(text) is not None)
    if isinstance(fact, FatalSignal):
        return pid in pids
    return broken and type(fact).__module__ == platform.__name__
