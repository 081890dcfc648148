# SPDX-License-Identifier: Apache-2.0
"""What a node's answer says about the task of a step. Texts as Slurm and the kernel write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.sources.schedulers.scheduler_answer import Answer
from keepstep.sources.schedulers.slurm_task import TaskState, look, read

HEADER = "PID      JOBID    STEPID   LOCALID GLOBALID\n"
LIVES = "5472     12       0        0       0       \n"
CHILD = "5474     12       0        -       -       \n"
SOCKETS = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:1AA2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1789 1 0 100 0 0 10 0\n"
    "   1: 020012C6:5DF3 030012C6:B0F5 06 00000000:00000000 03:00001762 00000000     0        0 0 3 0\n"
)
LISTENER = (
    "   3: 00000000000000000000000000000000:5DF3 00000000000000000000000000000000:0000 0A 00000000:00000000 00:0\n"
)
GONE = "StepId=12.0 does not exist on node (null).\n"
PORT = 0x5DF3


def text(pids: str, sockets: str = SOCKETS, note: str = "there") -> str:
    return f"pids\n{pids}sockets\n{sockets}note\n{note}\nend\n"


@pytest.mark.parametrize(
    ("answer", "task"),
    [
        (text(HEADER + LIVES + CHILD), TaskState.LIVES),
        (text(HEADER + CHILD), TaskState.LIVES),
        (text(HEADER, SOCKETS + LISTENER), TaskState.LIVES),
        (text(HEADER), TaskState.KILLED),
        (text(HEADER + GONE), TaskState.KILLED),
        (text(GONE + HEADER), TaskState.KILLED),
        (text(HEADER, note="absent"), TaskState.ENDED),
        (text(HEADER + LIVES, note="absent"), TaskState.LIVES),
        (text("sh: 1: scontrol: not found\n"), TaskState.UNKNOWN),
        (text("slurm_load_jobs error: Unable to contact slurm controller\n" + HEADER), TaskState.UNKNOWN),
        (text(""), TaskState.UNKNOWN),
        (text(HEADER, sockets=""), TaskState.UNKNOWN),
        (text(HEADER)[:-4], TaskState.UNKNOWN),
        ("", TaskState.UNKNOWN),
    ],
)
def test_only_a_whole_answer_without_any_process_says_that_it_is_gone(answer: str, task: TaskState) -> None:
    assert read(answer, "12.0", {PORT}) is task


def test_a_step_of_another_number_is_not_this_one() -> None:
    assert read(text(HEADER + "77  12  10  0  0 \n"), "12.1", {PORT}) is TaskState.UNKNOWN


def test_it_is_asked_without_the_settings_of_this_step_and_without_the_secret() -> None:
    asked: list[str] = []

    def ask(command, limit_s):
        asked.extend(command)
        return Answer(out=text(HEADER).encode())

    env = {"SLURM_NTASKS": "3", "SLURM_CONF": "c", "KEEPSTEP_SECRET": "s"}
    assert look("12.0", "node-1", note=Path("/n"), ports={PORT}, env=env, ask=ask) is TaskState.KILLED
    assert asked[:4] == ["env", "-u", "SLURM_NTASKS", "srun"]
    assert "--export=PATH,SLURM_CONF" in asked
    assert look("12.0", "n", note=Path("/n"), ports={PORT}, ask=lambda *_: Answer(status=1)) is TaskState.UNKNOWN
