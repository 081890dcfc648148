# SPDX-License-Identifier: Apache-2.0
"""The report on a run of several attempts: why each earlier one ended, and how the last one did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from keepstep.base.wording import count, listing
from keepstep.model.finding import Finding, Role
from keepstep.model.report import Report
from keepstep.store.run_folders import AttemptSaid


def numbered(report: Report, attempt: int) -> Report:
    """The report on one attempt, with the attempt's number in every finding."""
    return replace(report, findings=tuple(replace(each, attempt=attempt) for each in report.findings))


def of_all_attempts(reports: Mapping[int, Report], attempts: Sequence[AttemptSaid]) -> Report:
    """One report from the reports on the attempts, by number; the last attempt's must be there.

    The first finding is from the last attempt that failed. What ended earlier attempts only contributed, since the run
        came back.
    """
    last = attempts[-1]
    own = numbered(reports[last.number], last.number)
    earlier = [
        numbered(reports[each.number], each.number) for each in reversed(attempts[:-1]) if each.number in reports
    ]
    before = tuple(replace(f, role=Role.CONTRIBUTING) for report in earlier for f in report.findings)
    findings = (*before, *own.findings) if last.status == 0 else (*own.findings, *before)
    return replace(
        own,
        findings=findings,
        story=tuple(_told(each, attempts, reports) for each in attempts) if len(attempts) > 1 else (),
        during=tuple(
            f"attempt {each.number}: {words}" if len(attempts) > 1 else words
            for each in attempts
            if each.number in reports
            for words in reports[each.number].during
        ),
    )


def _told(each: AttemptSaid, attempts: Sequence[AttemptSaid], reports: Mapping[int, Report]) -> str:
    number, root = each.number, _root(reports.get(each.number))
    after = f" after {count(each.steps, 'step')}{_slower(each, attempts)}" if each.steps else ""
    title = root.title if root is not None else each.title
    if each.status == 0:
        return f"attempt {number} finished with status 0{after}"
    how = (
        f"attempt {number} ended{after}: {title}"
        if title
        else f"attempt {number} ended{after}, with status {each.status}"
    )
    if each is not attempts[-1]:
        return f"{how}. The run came back."
    if each.ended is not None:
        return how
    report = reports.get(number)
    return f"attempt {number} {'still runs' if report is not None and report.alive else 'was not seen to end'}"


def _slower(each: AttemptSaid, attempts: Sequence[AttemptSaid]) -> str:
    """What a step took with remedies, beside one without them."""
    without = next((one for one in attempts if one.step_s and not one.remedies), None)
    if without is None or without.step_s is None or not each.step_s or not each.remedies:
        return ""
    times = f"{each.step_s / without.step_s:.2g} times the {without.step_s:.3g} s of attempt {without.number}"
    return f" of {each.step_s:.3g} s ({times}, with: {listing(each.remedies)})"


def _root(report: Report | None) -> Finding | None:
    return report.root if report is not None else None
