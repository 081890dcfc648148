# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check data` says about a scenario's files, before any rank is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keepstep.check.checkup import judge
from keepstep.check.data.look import DataRequest, look_at_data
from keepstep.check.data.plan.evidence import evidence_of
from keepstep.check.data.plan.policies import FileRecords, plan
from keepstep.check.data.units import ReadRequest
from keepstep.model.finding import Finding, Severity
from keepstep.model.report import Report
from keepstep_lab import faults
from keepstep_lab.judge import Outcome, Status
from keepstep_lab.run import Run, Unproven
from keepstep_lab.scenario import Scenario

CLASSES = 10
CORRUPT = ("data.corrupt_or_truncated",)
UNEVEN = ("data.sharding_uneven_or_empty",)
PER_FILE = "tf-shard-files"
"""In all three frameworks the lab's jobs give each rank a file of its own, and take batches from it."""

TELLS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "tf_truncated_record": ("tf-file", 128, CORRUPT),
    "tf_flipped_record": ("tf-file", 32, CORRUPT),
    "tf_mirrored_flipped_record": ("tf-file", 32, CORRUPT),
    "tf_missing_record": ("tf-file", 32, UNEVEN),
    "tf_one_file": ("tf-file", 32, UNEVEN),
    "tf_short_shard": (PER_FILE, 8, UNEVEN),
    "tf_empty_shard": (PER_FILE, 16, UNEVEN),
    "tf_same_shard": (PER_FILE, 16, UNEVEN),
    "tf_fit_same_data": ("tf-off", 32, UNEVEN),
    "tf_label_out_of_range": ("tf-file", 128, ("data.label_out_of_range",)),
    "torch_uneven_data": (PER_FILE, 16, UNEVEN),
    "torch_uneven_four": (PER_FILE, 16, UNEVEN),
    "torch_empty_shard": (PER_FILE, 16, UNEVEN),
    "torch_same_shard": (PER_FILE, 16, UNEVEN),
    "torch_missing_data": (PER_FILE, 16, UNEVEN),
    "torch_truncated_data": (PER_FILE, 16, CORRUPT),
    "torch_flipped_data": (PER_FILE, 16, CORRUPT),
    "torch_label_out_of_range": (PER_FILE, 16, ("data.label_out_of_range",)),
    "torch_nan_loss": (PER_FILE, 16, ("numeric.nan_or_divergence",)),
    "jax_short_shard": (PER_FILE, 16, UNEVEN),
    "jax_empty_shard": (PER_FILE, 16, UNEVEN),
    "jax_same_shard": (PER_FILE, 16, UNEVEN),
    "jax_missing_data": (PER_FILE, 16, UNEVEN),
    "jax_truncated_data": (PER_FILE, 16, CORRUPT),
    "jax_flipped_data": (PER_FILE, 16, CORRUPT),
}
"""How each job divides its files, with which batch size, and what must be said before it starts."""


def before(scenario: Scenario) -> Scenario | None:
    """The scenario as it is judged on its files alone; None where they are not at fault."""
    if scenario.name not in TELLS and not scenario.healthy:
        return None
    causes = TELLS[scenario.name][2] if not scenario.healthy else (None,)
    return replace(scenario, cause=causes[0], also_accept=tuple(each for each in causes[1:] if each), later=None)


def judge_files(run: Run) -> Outcome:
    """Check the files that were prepared, and compare what was said with what is wrong with them."""
    scenario = run.scenario
    try:
        proof = faults.load(scenario.fault).proof(run) if scenario.fault else "the files are as they were written"
    except Unproven as error:
        return Outcome(scenario=scenario.name, framework=scenario.framework, status=Status.UNPROVEN, why_not=str(error))
    findings = list(_notable(checked(run)))
    right = [each for each in findings if each.cause.value in scenario.accepted]
    false = tuple(f"{each.cause.value} ({each.rule})" for each in findings) if scenario.healthy else ()
    first = next(iter(right or findings), None)
    return Outcome(
        scenario=scenario.name,
        framework=scenario.framework,
        status=Status.RIGHT if (right or scenario.healthy) and not false else Status.WRONG,
        expected=scenario.cause,
        said=first.cause.value if first else None,
        title=f"{first.rule}: {first.title}" if first else "",
        ranks=first.ranks if first else (),
        right_cause=bool(right) or (scenario.healthy and not false),
        false=false,
        proof=proof,
    )


def checked(run: Run) -> Report:
    """As `keepstep check data FOLDER --classes 10 --ranks RANKS --batch B --policy P`."""
    policy, batch, _ = TELLS.get(run.scenario.name, (PER_FILE, 16, ()))
    seen = look_at_data(
        DataRequest(paths=(str(run.data),), asked=ReadRequest(values=True, classes=CLASSES, labels=("y",)))
    )
    counted = list(seen.counted())
    files = [FileRecords(unit.path, records) for unit, records in counted if records is not None]
    if files and len(files) == len(counted):
        made = plan(files, ranks=run.scenario.ranks, batch=batch, policy=policy)
        seen.collected.take(evidence_of(made))
    return judge(seen.collected)


def _notable(report: Report) -> Iterator[Finding]:
    """Notes, as about the padding of a sampler, are no faults."""
    yield from (each for each in report.findings if each.severity is not Severity.NOTE)
