# SPDX-License-Identifier: Apache-2.0
"""Slurm jobs, from what the clients of a real Slurm 22.05 printed about jobs that failed on it (captures/).

Only the work folder is moved: its name in the captures is replaced by that of a folder made for the test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from keepstep.errors import Unavailable, UserError
from keepstep.model.evidence import CoverageState
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.resource import OomKilled
from keepstep.sources.schedulers.scheduler_answer import Answer, Ask, JobLeft
from keepstep.sources.schedulers.slurm_job import read_slurm_job

CAPTURES = Path(__file__).parent / "captures" / "slurm-22.05"
ABSENT = Answer(status=127, err="not on the PATH", found=False)
FORGOTTEN = Answer(status=1, err="slurm_load_jobs error: Invalid job id specified\n")
NO_ACCOUNTING = Answer(status=1, err="Slurm accounting storage is disabled\n")


def recorded(name: str, folder: Path, owner: int | None = None, **instead: Answer) -> Ask:
    """The clients' answers about one job of ours, or of ``owner``; ``scontrol=`` or ``sacct=`` replaces an answer."""

    def ask(command: Sequence[str]) -> Answer:
        if command[0] in instead:
            return instead[command[0]]
        text = (CAPTURES / f"{name}.{command[0]}.txt").read_text()
        text = text.replace("(1001)", f"({os.geteuid() if owner is None else owner})")
        return Answer(out=text.replace("/srv/app", str(folder)).encode())

    return ask


def edited(name: str, old: str, new: str, folder: Path) -> Ask:
    """Accounting alone, with one word changed: states that a test cluster cannot reach."""
    text = (CAPTURES / f"{name}.sacct.txt").read_text()
    assert old in text
    answer = Answer(out=text.replace(old, new).replace("/srv/app", str(folder)).encode())
    return recorded(name, folder, scontrol=FORGOTTEN, sacct=answer)


def facts(left: JobLeft) -> list[Fact]:
    return [e.fact for e in left.evidence]


@pytest.mark.parametrize(
    "blind", [{}, {"scontrol": FORGOTTEN}, {"sacct": NO_ACCOUNTING}], ids=["both", "sacct", "scontrol"]
)
@pytest.mark.parametrize(
    ("name", "job", "expected"),
    [
        ("failed", "7", ProcessExited(reporter="Slurm", code=1, node="n[1-2]")),
        ("segfault", "9", ProcessExited(reporter="Slurm", signal="SIGSEGV", node="n[1-2]")),
        ("over_memory", "8", ProcessExited(reporter="Slurm", signal="SIGKILL", node="n[1-2]")),
        ("array", "13", ProcessExited(reporter="Slurm", signal="SIGKILL", node="n2")),
        ("timeout", "15", Preempted(by="Slurm", reason="its time limit of 00:01:00 was reached", node="n[1-2]")),
        ("preempted", "10", Preempted(by="Slurm", reason="a job of higher priority took its place", node="n[1-2]")),
    ],
)
def test_how_a_job_ended_is_told_by_either_client(
    name: str, job: str, expected: Fact, blind: dict[str, Answer], tmp_path: Path
) -> None:
    left = read_slurm_job(job, recorded(name, tmp_path, **blind))
    assert expected in facts(left)
    states = {c.what: c.state for c in left.coverage}
    assert list(states.values()).count(CoverageState.UNAVAILABLE) >= len(blind)
    assert all(e.quote.startswith(f"job {job}") and e.origin.source in ("sacct", "scontrol") for e in left.evidence)


def test_a_cancelled_job_names_who_cancelled_it_and_not_its_steps(tmp_path: Path) -> None:
    left = read_slurm_job("12", recorded("cancelled", tmp_path))
    assert facts(left) == [TerminationRequested(by="user", reason="cancelled by user id 1001")]


def test_a_job_out_of_memory_names_what_it_had_asked_for(tmp_path: Path) -> None:
    left = read_slurm_job("8", edited("over_memory", "8|FAILED|9:0", "8|OUT_OF_MEMORY|0:125", tmp_path))
    assert facts(left)[0] == OomKilled(by="Slurm", limit="200M")


def test_a_step_out_of_memory_is_told_though_the_job_only_failed(tmp_path: Path) -> None:
    left = read_slurm_job("8", edited("over_memory", "8.0|CANCELLED by 1001|0:9", "8.0|OUT_OF_MEMORY|0:125", tmp_path))
    assert OomKilled(by="Slurm", limit="200M") in facts(left)


def test_a_failed_node_is_a_fault_of_the_machine(tmp_path: Path) -> None:
    left = read_slurm_job("7", edited("failed", "7|FAILED|1:0", "7|NODE_FAIL|0:0", tmp_path))
    assert isinstance(facts(left)[0], MachineFault)
    assert left.evidence[0].fact.node == "n[1-2]"  # type: ignore[attr-defined]


def test_a_running_job_is_said_to_be_unfinished(tmp_path: Path) -> None:
    left = read_slurm_job("7", edited("failed", "|FAILED|1:0", "|RUNNING|0:0", tmp_path))
    assert not left.evidence
    assert any(c.state is CoverageState.NOT_CHECKED and "RUNNING" in c.why for c in left.coverage)


def test_the_files_that_slurm_names_are_found_and_the_missing_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "out_slow_15.log").write_text("0: hello\n")
    left = read_slurm_job("15", recorded("timeout", tmp_path))
    assert [path.name for path in left.paths] == ["out_slow_15.log"]
    assert any("err_slow_15.log" in c.what and "n[1-2]" in c.why for c in left.coverage)


def test_a_file_of_ours_that_another_users_job_names_as_its_output_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("password=hunter2\n")
    (tmp_path / "slurm-7.out").symlink_to(tmp_path / "private")
    left = read_slurm_job("7", ask=recorded("failed", tmp_path, owner=os.geteuid() + 4321))
    assert not left.paths
    assert any("belongs to a user other than the job's" in each.why for each in left.coverage)
    assert read_slurm_job("7", ask=recorded("failed", tmp_path)).paths


def test_files_of_srun_and_cores_of_the_jobs_time_are_found_beside_them(tmp_path: Path) -> None:
    during = time.mktime(time.strptime("2026-11-15T01:48:20", "%Y-%m-%dT%H:%M:%S"))
    for name in ("slurm-9.out", "seg_9_0.log", "seg_9_1.log", "core.4711", "seg_8_9.log", "notes.txt", "model_9.pt"):
        (tmp_path / name).write_text("text\n")
        os.utime(tmp_path / name, (during, during))
    (tmp_path / "seg_9_old.log").write_text("of another cluster's job 9\n")
    os.utime(tmp_path / "seg_9_old.log", (during - 90_000, during - 90_000))
    left = read_slurm_job("9", recorded("segfault", tmp_path))
    assert sorted(path.name for path in left.paths) == ["core.4711", "seg_9_0.log", "seg_9_1.log", "slurm-9.out"]


def test_one_task_of_an_array_brings_only_its_own_files(tmp_path: Path) -> None:
    for name in ("arr_13_0.out", "arr_13_1.out"):
        (tmp_path / name).write_text("text\n")
    lines = (
        (CAPTURES / "array.scontrol.txt")
        .read_text()
        .replace("/srv/app", str(tmp_path))
        .replace("(1001)", f"({os.geteuid()})")
        .splitlines()
    )
    controller = Answer(out="\n".join(line for line in lines if "ArrayTaskId=1 " in line).encode())
    left = read_slurm_job("13_1", recorded("array", tmp_path, scontrol=controller, sacct=NO_ACCOUNTING))
    assert [path.name for path in left.paths] == ["arr_13_1.out"]


def test_names_with_percent_signs_are_expanded_as_slurm_does(tmp_path: Path) -> None:
    text = (
        (CAPTURES / "failed.scontrol.txt")
        .read_text()
        .replace("/srv/app", str(tmp_path))
        .replace("(1001)", f"({os.geteuid()})")
    )
    for name in ("train-0007-t0.log", "train-0007-t1.log", "train-0008-t0.log"):
        (tmp_path / name).write_text("text\n")
    pattern = text.replace("slurm-7.out", "%x-%4j-t%t.log")
    left = read_slurm_job("7", recorded("failed", tmp_path, scontrol=Answer(out=pattern.encode()), sacct=NO_ACCOUNTING))
    assert [path.name for path in left.paths] == ["train-0007-t0.log", "train-0007-t1.log"]


def test_without_any_client_the_hint_says_where_to_call(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="neither scontrol nor sacct is on the PATH") as raised:
        read_slurm_job("7", recorded("failed", tmp_path, scontrol=ABSENT, sacct=ABSENT))
    assert raised.value.hint and "login node" in raised.value.hint


def test_an_unknown_job_is_told_in_slurms_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Invalid job id specified; Slurm accounting storage is disabled"):
        read_slurm_job("99", recorded("failed", tmp_path, scontrol=FORGOTTEN, sacct=NO_ACCOUNTING))


@pytest.mark.parametrize("wrong", ["", "abc", "12;rm", "-j", "12 13", "../12"])
def test_what_is_no_job_id_is_refused_before_any_client_is_called(wrong: str) -> None:
    def never(command: Sequence[str]) -> Answer:
        raise AssertionError(command)

    with pytest.raises(UserError, match="not a Slurm job id"):
        read_slurm_job(wrong, never)


def test_garbled_answers_give_an_unknown_job_and_no_crash(tmp_path: Path) -> None:
    garbage = Answer(out=b"\xff\xfe|||\n||||||||||||||||\nJobState= ExitCode=\n" * 3)
    with pytest.raises(Unavailable):
        read_slurm_job("7", recorded("failed", tmp_path, scontrol=garbage, sacct=Answer(out=b"7|FAI")))
