# SPDX-License-Identifier: Apache-2.0
"""What a report without findings says, and how far ranks got whose end nothing proves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from keepstep.base.wording import duration
from keepstep.base.wording import ranks as say_ranks
from keepstep.model.evidence import CoverageState
from keepstep.model.report import RanksEnd, Report, Verdict

STANDS_STILL = "why it has stood still"
"""How the coverage of a run that still runs without progress begins."""


def said_without_findings(report: Report) -> str:
    """One line: what the lack of findings means here."""
    if report.alive:
        if any(each.what.startswith(STANDS_STILL) for each in report.coverage):
            return "the run still runs; whether anything is wrong is not known yet"
        return "the run still runs; nothing wrong was found so far"
    if report.verdict is Verdict.HEALTHY:
        return "nothing wrong was found"
    cut = any(each.state is CoverageState.PARTLY for each in report.coverage)
    if not cut and any(each.proof is None for each in report.ended):
        return "no failure seen; nothing says that the run ended"
    if report.is_partial:
        return "nothing wrong was found, but not everything could be checked"
    return "there was nothing to look at"


def where_ranks_ended(report: Report) -> Iterator[str]:
    """A line for each group of ranks, where the end of one is not proven."""
    if report.verdict is not Verdict.UNKNOWN or report.findings or all(each.proof for each in report.ended):
        return
    for each in report.ended:
        who = say_ranks(each.ranks) if each.ranks else each.log or "the log"
        told = [f"{who}: {each.proof or 'no proof of an end'}", *_progress(each)]
        yield ", ".join(told)
    if not report.alive:
        yield "if you know how the ranks ended, say so: --exit-status RANK=STATUS"


def _progress(each: RanksEnd) -> Iterator[str]:
    if each.step is not None:
        yield f"last step {each.step}" + (f" of {each.of}" if each.of else "")
    if each.at is not None:
        yield f"last line at {datetime.fromtimestamp(each.at, timezone.utc):%H:%M:%S}"
    if each.silent_s is not None and each.silent_s > max(1.0, 3 * (each.usual_s or 0.0)):
        yield f"{duration(each.silent_s)} before the last line of all"
    if each.usual_s is not None:
        yield f"usually a step every {duration(each.usual_s)}"
