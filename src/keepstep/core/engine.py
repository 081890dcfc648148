# SPDX-License-Identifier: Apache-2.0
"""Ask every rule, survive the ones that crash, and put what they found in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keepstep.core.already import without_what_is_so
from keepstep.core.causality import in_causal_order
from keepstep.core.cause import Cause
from keepstep.core.evidence import CoverageState, EvidenceSet
from keepstep.core.finding import Finding, Found, Severity, Standing, ranks_of
from keepstep.core.report import Report, RuleCrash, Verdict
from keepstep.core.rule import Rule

_HANGS = {Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK}


Order = Callable[[EvidenceSet, list[Finding]], tuple[Finding, ...]]


def diagnose(seen: EvidenceSet, rules: Iterable[Rule], order: Order = in_causal_order) -> Report:
    """The report on one set of evidence. Pure: the same set gives the same report."""
    findings: list[Finding] = []
    crashed: list[RuleCrash] = []
    guesses: list[Rule] = []
    for each in rules:
        if each.standing is Standing.GUESS:
            guesses.append(each)
        else:
            _ask(each, seen, findings, crashed)
    if not findings or (seen.broken and not any(f.severity is Severity.FATAL for f in findings)):
        for each in guesses:
            _ask(each, seen, findings, crashed)
    ordered = order(seen, [without_what_is_so(each, seen) for each in findings])
    return Report(
        verdict=_verdict(seen, ordered),
        findings=ordered,
        coverage=seen.coverage,
        crashed=tuple(crashed),
        ranks=tuple(sorted(seen.ranks)),
        world_size=seen.world_size,
    )


def _ask(each: Rule, seen: EvidenceSet, findings: list[Finding], crashed: list[RuleCrash]) -> None:
    if each.needs and not any(seen.all(kind) for kind in each.needs):
        return
    try:
        findings.extend(_finding(each, found) for found in each.find(seen))
    except Exception as error:
        crashed.append(RuleCrash(rule=each.id, error=f"{type(error).__name__}: {error}"))


def _finding(each: Rule, found: Found) -> Finding:
    return Finding(
        rule=each.id,
        cause=found.cause or each.cause,
        title=found.title,
        because=found.because,
        evidence=found.evidence,
        ranks=found.ranks if found.ranks is not None else ranks_of(found.evidence),
        confidence=found.confidence or each.confidence,
        severity=found.severity or each.severity,
        standing=found.standing or each.standing,
        fixes=found.fixes,
        explains=each.explains,
    )


def _verdict(seen: EvidenceSet, findings: tuple[Finding, ...]) -> Verdict:
    if findings and findings[0].severity is Severity.FATAL:
        hung = findings[0].cause in _HANGS and not seen.broken
        return Verdict.HUNG if hung else Verdict.FAILED
    if findings:
        return Verdict.DEGRADED
    states = {c.state for c in seen.coverage}
    return Verdict.HEALTHY if CoverageState.CHECKED in states and CoverageState.PARTLY not in states else Verdict.UNKNOWN
