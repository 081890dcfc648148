# SPDX-License-Identifier: Apache-2.0
"""What a real Slurm 22.05 said about running jobs, shortened; and answers that say nothing."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.sources.schedulers.scheduler_answer import Answer
from keepstep.sources.schedulers.slurm_controller import (
    AskWithin,
    JobNow,
    job_now,
    node_words,
    parse_job,
    parse_node,
    requeue,
    setting,
    srun_words,
)

AFTER_A_NODE_FAILED = (
    "JobId=2 JobName=b.sh UserId=root(0) JobState=RUNNING Reason=None Requeue=1 Restarts=1 BatchFlag=1 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=node-[2-3] BatchHost=node-1 NumNodes=2 NumTasks=3\n"
)


def answers(text: str, status: int = 0, err: str = "") -> tuple[list[list[str]], AskWithin]:
    asked: list[list[str]] = []

    def ask(command: Sequence[str], limit_s: float) -> Answer:
        assert limit_s < 10
        asked.append(list(command))
        return Answer(status=status, out=text.encode(), err=err)

    return asked, ask


def test_the_nodes_that_slurm_still_counts() -> None:
    asked, ask = answers(AFTER_A_NODE_FAILED)
    found = job_now("2", ask)
    assert found == JobNow(state="RUNNING", nodes="node-[2-3]", restarts=1, batch_host="node-1")
    assert asked == [["scontrol", "show", "job", "-o", "2"]]


def test_a_job_without_nodes_or_script() -> None:
    line = "JobId=3 JobName=sh JobState=PENDING Restarts=0 BatchFlag=0 NodeList=(null) BatchHost=node-1\n"
    assert parse_job(line) == JobNow(state="PENDING", nodes="")


def test_a_controller_that_does_not_answer_is_quoted() -> None:
    _, ask = answers("", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    assert job_now("2", ask) == "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


def test_an_answer_that_is_none_of_slurms() -> None:
    assert parse_job("hello") is None
    assert isinstance(job_now("2", answers("hello")[1]), str)


def test_the_state_of_a_node_with_its_reason() -> None:
    line = "State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@2026-11-17T05:20:07]\n"
    assert parse_node(line) == "DOWN+NOT_RESPONDING (Not responding)"
    assert parse_node("NodeName=node-1 State=IDLE CPUAlloc=0\n") == "IDLE"
    assert node_words("node-1", answers("", 1, "Node node-1 not found")[1]) is None


def test_a_setting_of_the_cluster() -> None:
    _, ask = answers("KillOnBadExit           = 1\nKillWait                = 15 sec\n")
    assert setting("KillOnBadExit", ask) == "1"
    assert setting("Absent", ask) is None


def test_the_command_line_of_an_srun_on_another_node_is_not_known() -> None:
    _, ask = answers("StepId=2.0 State=RUNNING SrunHost:Pid=node-1:1\n")
    assert srun_words("2.0", "node-2", ask) is None
    assert srun_words("2.0", "node-1", ask) is None  # process 1 here is no srun


def test_a_requeue_that_slurm_refuses() -> None:
    asked, ask = answers("", 1, "Requested operation is presently disabled\n")
    assert requeue("2", ask) == "Requested operation is presently disabled"
    assert asked == [["scontrol", "requeue", "2"]]
