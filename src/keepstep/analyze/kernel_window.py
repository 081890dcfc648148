# SPDX-License-Identifier: Apache-2.0
"""What this host's kernel said about the run's processes in the minutes in which it broke.

Other programs are killed and crash on the same host. So a kernel line counts if it names a process that the logs name
too; an out-of-memory kill also if they name none and it hit a Python process; a hardware fault if it came when the run
broke; a fault that a program brings on its GPU also if the logs have one. And the run must have been here: a log
copied from elsewhere was not last written when its last line says.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from keepstep.analyze.load_tables import known
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Coverage, Evidence, EvidenceSet, Origin
from keepstep.model.facts import platform
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import FatalSignal
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.logscan import LogScan
from keepstep.sources.host.kernel_log import read_kernel_log

BEFORE_S = 60.0
AFTER_S = 60.0
OLDEST_S = 7 * 86400.0
CLOSE_S = 120.0
"""The most between the last time in a log and the file's last change, if the file was written here."""

_PYTHON = lazy_pattern(r"\b(?:python|pt_main_thread|pt_data_worker|ray::)")


def kernel_evidence(
    evidence: Sequence[Evidence[Fact]], written: Sequence[float]
) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """Kernel facts that belong to the run; ``written``: when its files last changed.

    Nothing can be found for logs that have no times, are old, or come from another host.
    """
    ended = _ended([e.at for e in evidence if e.at is not None], written)
    now = time.time()
    if ended is None or not now - OLDEST_S < ended <= now + 60:
        return [], []
    pids = {pid for e in evidence if isinstance(pid := getattr(e.fact, "pid", None), int)}
    felt = any(isinstance(e.fact, platform.DeviceFault) for e in evidence)
    return said_about(pids, ended, broken=EvidenceSet(items=tuple(evidence)).broken, felt=felt)


def said_about(
    pids: set[int], ended: float, *, broken: bool, felt: bool = False
) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """What this host's kernel said about these processes around that time; ``broken``: and about its hardware.

    ``felt``: the run has reported a fault of its GPU itself.
    """
    lines, coverage = read_kernel_log(ended - BEFORE_S, ended + AFTER_S)
    found: list[Evidence[Fact]] = []
    for at, text in lines:
        for sighting in LogScan(known()).scan([text.encode()]):
            if _belongs(sighting.fact, text, pids, broken, felt):
                origin = Origin(source="kernel log", line=None)
                found.append(Evidence(fact=sighting.fact, origin=origin, at=at, quote=sighting.quote))
    return found, coverage


def _ended(times: Sequence[float], written: Sequence[float]) -> float | None:
    """When the run ended by this host's clock, with its lines in local time or UTC; None if neither fits."""
    if not times:
        return None
    latest = max(times)
    for last in written:
        zone = time.localtime(last).tm_gmtoff
        if any(abs(latest - offset - last) <= CLOSE_S for offset in (0, zone)):
            return last
    return None


def _belongs(fact: Fact, text: str, pids: set[int], broken: bool, felt: bool) -> bool:
    pid = getattr(fact, "pid", None)
    if isinstance(fact, OomKilled):
        return pid in pids or (not pids and _PYTHON.search(text) is not None)
    if isinstance(fact, FatalSignal):
        return pid in pids
    if isinstance(fact, platform.DeviceFault) and not fact.hardware and not felt:
        return pid in pids  # any program on this host's GPUs brings such on itself
    return broken and type(fact).__module__ == platform.__name__
