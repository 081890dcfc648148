# SPDX-License-Identifier: Apache-2.0
"""The line of the user's program that a finding's message came from, where the message is part of a traceback."""

from __future__ import annotations

from dataclasses import replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import EvidenceSet
from keepstep.model.finding import Finding, Standing
from keepstep.signals.stacks import innermost_user, place

HAS_A_LINE = lazy_pattern(r"\.py:\d+")


def with_users_line(finding: Finding, seen: EvidenceSet) -> Finding:
    """The finding with that line in its reason, unless it has one. A lost peer may be noticed at any line."""
    if finding.standing not in (Standing.MECHANISM, Standing.EXCEPTION):
        return finding
    if HAS_A_LINE.search(finding.title) or HAS_A_LINE.search(finding.because):
        return finding
    for each in finding.evidence:
        for raised in seen.raised_around(each):
            line = innermost_user(reversed(raised.fact.frames))
            if line is not None and not raised.fact.logged:
                return replace(finding, because=f"{finding.because}; the program was at {place(line)}")
    return finding
