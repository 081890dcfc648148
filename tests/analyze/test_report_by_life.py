# SPDX-License-Identifier: Apache-2.0
"""Runs that were started again without keepstep: requeued jobs, restarted pods, torchrun's restarts, second jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Role
from keepstep.model.report import Report

LIVES = Path(__file__).parents[1] / "data" / "lives"


def report_on(case: str) -> Report:
    return explain_paths([LIVES / case]).report


@pytest.mark.parametrize(
    ("case", "cause", "rank", "attempt", "before"),
    [
        ("slurm_node_failure", "resource.gpu_oom", 2, 1, ["HWD004"]),
        ("torchrun_told", "resource.gpu_oom", 2, 2, ["USR001", "USR001"]),
        ("torchrun_quiet", "checkpoint.corrupt_or_missing", 0, 1, ["UNK004"]),
        ("torchrun_log_dir", "resource.disk_full", 0, 1, ["USR001"]),
        ("kubelet_restarts", "user.code_exception", 1, 1, ["HWD001"]),
        ("two_jobs", "user.code_exception", 1, 1, ["PRE001"]),
        ("old_process_holds_port", "network.port_in_use", 0, 1, ["FRW003"]),
        ("shell_loop", "data.corrupt_or_truncated", None, 1, ["FRW003"]),
        ("lightning_requeue", "resource.host_oom_killed", 1, 1, ["PRE001"]),
        ("jax_jobset", "resource.tpu_hbm_oom", None, 1, ["NET004"]),
    ],
)
def test_what_ended_the_last_life_is_kept_apart_from_what_ended_the_others(
    case: str, cause: str, rank: int | None, attempt: int, before: list[str]
) -> None:
    report = report_on(case)
    root = report.root
    assert root is not None and (root.cause.value, root.attempt, root.role) == (cause, attempt, Role.INITIATING)
    assert root.ranks == ((rank,) if rank is not None else ())
    first = {each.attempt: each.rule for each in reversed(report.findings) if each.attempt != attempt}
    assert [first[number] for number in sorted(first)] == before
    assert all(each.role is Role.CONTRIBUTING for each in report.findings if each.attempt != attempt)
    assert len(report.story) == attempt + 1
    assert report.story[0].startswith("attempt 0 ended: ") and report.story[0].endswith("It was started again.")


def test_a_run_that_went_on_after_a_requeue_is_healthy() -> None:
    report = report_on("slurm_preempted_then_finished")
    assert report.exit_status == 0
    assert [(each.cause.value, each.attempt) for each in report.findings] == [("preemption.sigterm", 0)]
    assert report.story[1].startswith("attempt 1 (began at train-5512.log:38) made progress")


def test_a_process_of_the_life_before_may_hold_the_port() -> None:
    root = report_on("old_process_holds_port").root
    assert root is not None and "a process of attempt 0 may still hold it" in root.because


@pytest.mark.parametrize(
    ("case", "cause"), [("pod_restarted_alone", "hardware.gpu_fault_xid_ecc"), ("one_endpoint", "network.port_in_use")]
)
def test_one_life_stays_one(case: str, cause: str) -> None:
    """A member that restarts alone, and two jobs at the same time, begin no new life of a run."""
    report = report_on(case)
    assert report.root is not None and report.root.cause.value == cause
    assert report.story == () and report.root.attempt is None


def test_an_error_that_was_survived_is_no_end() -> None:
    report = report_on("survived")
    assert (report.exit_status, report.findings, report.story) == (0, (), ())


def test_the_other_job_on_the_same_endpoint_is_named() -> None:
    root = report_on("one_endpoint").root
    assert root is not None and root.because == "job 91 was given port 29500 too"
