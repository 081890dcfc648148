# SPDX-License-Identifier: Apache-2.0
"""What counts as right, wrong, false and later."""

from __future__ import annotations

from dataclasses import replace

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.network import PortTaken
from keepstep.model.finding import Confidence, Finding, Role, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep_lab import table
from keepstep_lab.judge import Status, compare
from keepstep_lab.scenario import Scenario

SCENARIO = Scenario("a", "torch", "torch_ddp", "It breaks.", cause="network.port_in_use", root_ranks=(1,), ranks=4)


def finding(cause: Cause, *ranks: int, **more) -> Finding:
    seen = Evidence(fact=PortTaken(port=1), origin=Origin(source="rank1.log", line=1), quote="taken")
    settings = {
        "rule": "TST001",
        "title": "it was taken",
        "because": "it was",
        "confidence": Confidence.ESTABLISHED,
        "severity": Severity.FATAL,
        "standing": Standing.MECHANISM,
    }
    return Finding(cause=cause, ranks=ranks, evidence=(seen,), **{**settings, **more})


def report(*findings: Finding) -> Report:
    return Report(verdict=Verdict.FAILED if findings else Verdict.HEALTHY, findings=findings)


def test_right_is_the_right_cause_on_the_right_rank() -> None:
    assert compare(SCENARIO, report(finding(Cause.NETWORK_PORT_IN_USE, 1))).status is Status.RIGHT
    assert compare(SCENARIO, report(finding(Cause.NETWORK_PORT_IN_USE, 2))).right_rank is False
    assert compare(SCENARIO, report(finding(Cause.NETWORK_PORT_IN_USE, 0, 1, 2))).status is Status.WRONG
    assert compare(SCENARIO, report(finding(Cause.NETWORK_DNS, 1))).status is Status.WRONG
    assert compare(SCENARIO, report()).status is Status.WRONG


def test_another_beginning_told_with_confidence_is_false_and_fallout_is_not() -> None:
    right, other = finding(Cause.NETWORK_PORT_IN_USE, 1), finding(Cause.NETWORK_DNS, 2)
    assert compare(SCENARIO, report(right, other)).false == ("network.dns (TST001)",)
    fallout = replace(other, role=Role.CASCADE)
    assert compare(SCENARIO, report(right, fallout)).status is Status.RIGHT


def test_a_healthy_run_must_stay_silent() -> None:
    healthy = replace(SCENARIO, cause=None, root_ranks=None)
    assert compare(healthy, report()).status is Status.RIGHT
    noted = finding(Cause.NETWORK_DNS, severity=Severity.NOTE, confidence=Confidence.HYPOTHESIS)
    assert compare(healthy, report(noted)).status is Status.WRONG


def test_what_a_later_capability_will_tell_may_be_left_unsaid_but_nothing_false_may_be_said() -> None:
    later = replace(SCENARIO, later="guard")
    assert compare(later, report()).status is Status.LATER
    assert compare(later, report(finding(Cause.NETWORK_DNS, 1))).status is Status.WRONG
    assert compare(later, report(finding(Cause.NETWORK_PORT_IN_USE, 1))).status is Status.RIGHT


def test_the_totals_count_what_was_judged() -> None:
    outcomes = [
        compare(SCENARIO, report(finding(Cause.NETWORK_PORT_IN_USE, 1)), seconds=2.0),
        compare(SCENARIO, report()),
    ]
    said = table.totals(outcomes)
    assert "right cause 1 of 2 (50 %)" in said
    assert "median 2.0 s" in said
