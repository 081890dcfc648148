# SPDX-License-Identifier: Apache-2.0
"""The fast parts of the check, before the first rank starts: what the variables say, and what this host offers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keepstep.check.checkup import CheckRequest, judge, place_of
from keepstep.check.parts import look
from keepstep.model.finding import Confidence, Severity
from keepstep.model.report import Report
from keepstep.supervise.start.launch import Job, launches

FAST = ("config", "resources")


def preflight(job: Job, folder: Path, env: Mapping[str, str], script: Path | None) -> Report:
    """What would kill the run, as far as can be seen in a moment."""
    first = launches(job, attempt=0, folder=folder, exchange=folder, token="", env=env, more={})[0]
    asked = CheckRequest(parts=FAST, script=script, paths=(folder,))
    return judge(look(place_of(asked, first.env), FAST))


def would_end_it(report: Report) -> tuple[list[str], bool]:
    """What to say about a check, and whether it found what would surely kill the run: that it may is no reason."""
    words = [f"check: {f.title}" + (f" ({f.fixes[0].do})" if f.fixes else "") for f in report.findings]
    words += [f"note: {n.says}" + (f" {'; '.join(n.command.splitlines())}" if n.command else "") for n in report.notes]
    fatal = [each for each in report.findings if each.severity is Severity.FATAL]
    return words, any(each.confidence is Confidence.ESTABLISHED for each in fatal)
