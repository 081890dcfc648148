# SPDX-License-Identifier: Apache-2.0
"""Score what keepstep says about a scenario: right cause, right rank, nothing false, how soon."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from keepstep.analyze.why import Explained, explain_live, explain_paths
from keepstep.model.finding import Confidence, Finding, Role
from keepstep.model.report import Report, Verdict
from keepstep_lab import faults, supervised
from keepstep_lab.guarded import guard_folder
from keepstep_lab.run import Run, Unproven
from keepstep_lab.scenario import Scenario


class Status(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    LATER = "later"
    """Nothing false was said; the capability that will find it does not exist yet."""
    UNPROVEN = "unproven"
    """The fault did not happen: nothing was judged."""
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One row of the score."""

    scenario: str
    framework: str
    status: Status
    expected: str | None = None
    said: str | None = None
    title: str = ""
    ranks: tuple[int, ...] = ()
    right_cause: bool | None = None
    right_rank: bool | None = None
    """None: the scenario does not say which rank can be known."""
    seconds: float | None = None
    """From the fault to the verdict."""
    false: tuple[str, ...] = ()
    proof: str = ""
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}


def judge_run(run: Run) -> tuple[Outcome, Explained | None]:
    """Prove that the fault happened, ask keepstep, and compare. The job has ended, or hangs."""
    scenario = run.scenario
    try:
        proof = prove(run)
    except Unproven as error:
        failed = run.work / "outside-failed"
        more = f" ({failed.read_text()})" if failed.exists() else ""
        return Outcome(
            scenario=scenario.name, framework=scenario.framework, status=Status.UNPROVEN, why_not=f"{error}{more}"
        ), None
    strikes = run.strikes()
    if run.watch == "run":
        explained, said = supervised.explain(run)
        seconds = max(0.0, said - strikes[0][0]) if strikes and said is not None and not scenario.healthy else None
    elif run.watch == "guard":
        explained = explain_paths([guard_folder(run)])
        told = explained.report.root.evidence if explained.report.root else ()
        at = min((each.at for each in told if each.at is not None), default=None)
        seconds = max(0.0, at - strikes[0][0]) if strikes and at is not None and not scenario.healthy else None
    else:
        explained = explain_live(sorted(run.rank_pids().values())) if scenario.hang else explain_paths([run.folder])
        seconds = time.time() - strikes[0][0] if strikes and not scenario.healthy else None
    runs = any(process.poll() is None for process in run.processes.values())
    outcome = compare(scenario, explained.report, proof=proof, seconds=seconds, still_runs=runs)
    if run.watch == "run" and scenario.healthy and (line := supervised.spoke(run)) is not None:
        outcome = replace(outcome, status=Status.WRONG, false=(line,))
    return outcome, explained


def prove(run: Run) -> str:
    """The fault's own proof; of a healthy scenario, that every rank ended well."""
    proofs = []
    if run.scenario.fault:
        try:
            proofs.append(faults.load(run.scenario.fault).proof(run))
        except Unproven:
            if run.watch != "run" or not run.strikes():
                raise
            proofs.append(f"{run.proof_that_it_struck()}; the supervisor has ended the ranks since")
    if run.scenario.healthy:
        statuses = {rank: process.poll() for rank, process in run.processes.items()}
        well = (0, None) if run.scenario.hang or run.scenario.roles else (0,)
        if any(status not in well for status in statuses.values()):
            raise Unproven(f"a run that should be healthy ended with {statuses}")
        proofs.append("every rank lives or ended with status 0" if None in well else "every rank ended with status 0")
    return "; ".join(proofs)


def compare(
    scenario: Scenario, report: Report, *, proof: str = "", seconds: float | None = None, still_runs: bool = False
) -> Outcome:
    """What was said against what happened."""
    root = report.root
    unfinished = scenario.hang or still_runs
    right_cause = (
        (root is None and report.verdict in (Verdict.HEALTHY, *([Verdict.UNKNOWN] if unfinished else [])))
        if scenario.healthy  # of one that is looked at in the middle nothing proves the end
        else (root is not None and root.cause.value in scenario.accepted)
    )
    right_rank = None
    if scenario.root_ranks is not None and right_cause and root is not None:
        right_rank = 0 < len(root.ranks) <= max(2, len(scenario.root_ranks)) and bool(
            {*root.ranks} & {*scenario.root_ranks}
        )
    false = tuple(f"{each.cause.value} ({each.rule})" for each in report.findings if _is_false(each, scenario))
    right = right_cause and right_rank is not False and not false
    status = Status.RIGHT if right else Status.WRONG
    if scenario.later and not right and not false:
        status = Status.LATER
    return Outcome(
        scenario=scenario.name,
        framework=scenario.framework,
        status=status,
        expected=scenario.cause,
        said=root.cause.value if root else None,
        title=root.title if root else "",
        ranks=root.ranks if root else (),
        right_cause=right_cause,
        right_rank=right_rank,
        seconds=seconds,
        false=false,
        proof=proof,
        why_not=f"will be found by `{scenario.later}`" if status is Status.LATER else "",
    )


def _is_false(finding: Finding, scenario: Scenario) -> bool:
    """Whether this names as a beginning, with some confidence, what did not happen."""
    if scenario.healthy:
        return True
    if finding.role is Role.CONTRIBUTING and finding.cause.value in scenario.earlier:
        return False
    fallout = finding.role in (Role.CASCADE, Role.TEARDOWN)
    return (
        not fallout and finding.confidence is not Confidence.HYPOTHESIS and finding.cause.value not in scenario.accepted
    )
