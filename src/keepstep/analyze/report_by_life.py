# SPDX-License-Identifier: Apache-2.0
"""The report on a run that was started again without keepstep: what ended each of its lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from keepstep.analyze.report_on_attempts import numbered
from keepstep.model.cause import Cause
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.training import Phase, PhaseSeen, StepSeen
from keepstep.model.finding import Finding, Role, Severity
from keepstep.model.report import Report, Verdict
from keepstep.story.lives import Life, lives_of

MOST_EXPLAINED = 4
"""How many lives are explained besides the first."""
ENOUGH_STEPS = 2


def by_lives(seen: EvidenceSet, ask: Callable[[EvidenceSet], Report]) -> Report:
    """What ``ask`` says about the evidence, life by life if there are several. The latest failure comes first."""
    lives = lives_of(seen)
    if not lives:
        return ask(seen)
    asked = [*lives[:1], *lives[1:][-MOST_EXPLAINED:]]
    reports = [numbered(ask(each.seen), each.number) for each in asked]
    last = reports[-1]
    earlier = reports[-2::-1]
    story = tuple(_told(life, report, lives) for life, report in zip(asked, reports, strict=True))
    if last.root is not None and last.root.severity is Severity.FATAL:
        findings = (*_with_the_port(last.findings, lives), *_contributing(earlier))
        return replace(last, findings=findings, story=story)
    if _is_going(lives[-1]) or not earlier:
        return replace(last, findings=(*_contributing(earlier), *last.findings), story=story)
    latest = next((each for each in earlier if each.findings), earlier[0])
    rest = [each for each in (*earlier, last) if each is not latest]
    return replace(last, verdict=latest.verdict, findings=(*latest.findings, *_contributing(rest)), story=story)


def _contributing(reports: Sequence[Report]) -> tuple[Finding, ...]:
    return tuple(replace(each, role=Role.CONTRIBUTING) for report in reports for each in report.findings)


def _with_the_port(findings: tuple[Finding, ...], lives: Sequence[Life]) -> tuple[Finding, ...]:
    root = findings[0]
    if root.cause is not Cause.NETWORK_PORT_IN_USE:
        return findings
    before = lives[-2].number
    because = f"{root.because}; this is a restart, so a process of attempt {before} may still hold it"
    return (replace(root, because=because), *findings[1:])


def _is_going(life: Life) -> bool:
    """Whether it trained: it finished, or made steps."""
    if any(e.fact.phase is Phase.FINISHED for e in life.seen.all(PhaseSeen)):
        return True
    return len({(e.fact.step, e.fact.of) for e in life.seen.all(StepSeen)}) >= ENOUGH_STEPS


def _told(life: Life, report: Report, lives: Sequence[Life]) -> str:
    root = report.root
    began = f" (began at {life.began.origin})" if life.began is not None else ""
    what = f"attempt {life.number}{began}"
    if root is not None and root.severity is Severity.FATAL:
        told = f"{what} ended: {root.title}"
        return told if life is lives[-1] else f"{told}. It was started again."
    if life is not lives[-1]:
        return f"{what} ended; nothing here says why. It was started again."
    if report.verdict is Verdict.HEALTHY and _is_going(life):
        return f"{what} made progress, and nothing shows that it failed"
    return f"{what} was not seen to end"
