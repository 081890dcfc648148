# SPDX-License-Identifier: Apache-2.0
"""What a report without findings says."""

from __future__ import annotations

from keepstep.model.report import Report, Verdict


def said_without_findings(report: Report) -> str:
    """One line: what the lack of findings means here."""
    healthy = report.verdict is Verdict.HEALTHY
    if report.alive and healthy:
        return "the run still runs; nothing wrong was found so far"
    if report.alive:
        return "the run still runs; whether anything is wrong is not known yet"
    if healthy:
        return "nothing wrong was found"
    if report.is_partial:
        return "nothing wrong was found, but not everything could be checked"
    return "there was nothing to look at"
