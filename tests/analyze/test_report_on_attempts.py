# SPDX-License-Identifier: Apache-2.0
"""The report on a run of several attempts."""

from __future__ import annotations

from keepstep.analyze.report_on_attempts import of_all_attempts
from keepstep.model.cause import Cause
from keepstep.model.codec import report_to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.process import ProcessExited
from keepstep.model.finding import Confidence, Finding, Role, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep.render.terminal import render_terminal
from keepstep.store.run_folders import AttemptSaid


def failed(title: str) -> Report:
    evidence = Evidence(
        fact=ProcessExited(reporter="keepstep run", signal="SIGKILL"), origin=Origin(source="exits.jsonl")
    )
    finding = Finding(
        rule="UNK004", cause=Cause.UNKNOWN_NOT_ESTABLISHED, title=title, because="so", evidence=(evidence,), ranks=(1,),
        confidence=Confidence.SUPPORTED, severity=Severity.FATAL, standing=Standing.SYMPTOM,
    )  # fmt: skip
    return Report(verdict=Verdict.FAILED, findings=(finding,))


def test_a_run_that_came_back_is_healthy_and_says_why_it_had_to() -> None:
    attempts = [
        AttemptSaid(number=0, began=1.0, ended=2.0, status=137, steps=30),
        AttemptSaid(number=1, began=2.0, ended=3.0, status=0),
    ]
    report = of_all_attempts({0: failed("rank 1 was killed"), 1: Report(verdict=Verdict.HEALTHY)}, attempts)
    assert (report.verdict, report.exit_status) == (Verdict.HEALTHY, 0)
    (finding,) = report_to_dict(report)["findings"]
    assert (finding["attempt"], finding["role"]) == (0, "contributing")
    assert report.story == (
        "attempt 0 ended after 30 steps: rank 1 was killed. The run came back.",
        "attempt 1 finished with status 0",
    )
    text = render_terminal(report)
    assert text.index("attempt 0 ended") < text.index("attempt 1 finished") < text.index("healthy")


def test_what_a_step_cost_with_a_remedy_is_said_beside_one_without() -> None:
    attempts = [
        AttemptSaid(number=0, began=1.0, ended=2.0, status=1, steps=30, step_s=0.1),
        AttemptSaid(number=1, began=2.0, ended=3.0, status=0, steps=90, step_s=0.25, remedies=["NCCL_IB_DISABLE"]),
    ]
    report = of_all_attempts({0: failed("rank 1 was lost"), 1: Report(verdict=Verdict.HEALTHY)}, attempts)
    times = "2.5 times the 0.1 s of attempt 0, with: NCCL_IB_DISABLE"
    assert report.story[1] == f"attempt 1 finished with status 0 after 90 steps of 0.25 s ({times})"


def test_the_first_finding_is_of_the_last_attempt_that_failed() -> None:
    attempts = [AttemptSaid(number=n, began=n, ended=n + 1.0, status=1) for n in range(3)]
    reports = {n: failed(f"failure {n}") for n in range(3)}
    report = of_all_attempts(reports, attempts)
    assert [(f.attempt, f.role) for f in report.findings] == [
        (2, Role.INITIATING),
        (1, Role.CONTRIBUTING),
        (0, Role.CONTRIBUTING),
    ]
    assert report.exit_status == 1 and report.story[-1] == "attempt 2 ended: failure 2"
    attempts[-1].status = 0
    finished = of_all_attempts({**reports, 2: Report(verdict=Verdict.HEALTHY)}, attempts)
    assert [f.attempt for f in finished.findings] == [1, 0] and finished.exit_status == 0


def test_a_run_of_one_attempt_needs_no_story() -> None:
    report = of_all_attempts({0: failed("x")}, [AttemptSaid(number=0, began=1.0, ended=2.0, status=1)])
    assert report.story == () and report.findings[0].attempt == 0 and report.findings[0].role is Role.INITIATING
