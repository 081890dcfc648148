# SPDX-License-Identifier: Apache-2.0
"""Which ranks can make something of the moment between SIGTERM and their end. Real processes with real black boxes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.supervise.watch.vitals import Boxes, uses_grace
from tests.supervise.starting import Running, wait_for

RANK = """
import signal, sys, time
from keepstep.signals.blackbox import BoxPhase
from keepstep.guard.startup_hook import session
guard = session()
guard.open()
guard.step_done()
{body}
print("there", flush=True)
time.sleep(600)
"""
LISTENS = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for each in processes:
        each.kill()
        each.communicate()


def rank(folder: Path, body: str, started: list[subprocess.Popen[str]]) -> int:
    """A rank that waits for its end, with its guard."""
    env = {
        **os.environ,
        "KEEPSTEP": "on",
        "KEEPSTEP_DIR": str(folder),
        "KEEPSTEP_SUPERVISOR": str(os.getpid()),
        "KEEPSTEP_RANK": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", RANK.format(body=body)], env=env, stdout=subprocess.PIPE, text=True
    )
    started.append(process)
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    return process.pid


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        ("", False),
        ("import faulthandler; faulthandler.register(signal.SIGTERM, chain=False)", False),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", False),
        (LISTENS, True),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])", True),
        ("guard.phase(BoxPhase.CHECKPOINT)", True),
    ],
    ids=[
        "nobody listens",
        "native code listens",
        "it is ignored",
        "the script listens",
        "a thread waits for it",
        "it is saving",
    ],
)
def test_grace_is_for_those_who_can_use_it(
    tmp_path: Path, started: list[subprocess.Popen[str]], body: str, uses: bool
) -> None:
    pid = rank(tmp_path, body, started)
    boxes = Boxes(tmp_path)

    def told() -> bool:
        boxes.refresh(now=True)
        return uses_grace(pid, boxes.open.values()) == uses

    assert wait_for(told, 30)
    boxes.close()


def test_a_rank_of_which_nothing_is_known_gets_its_grace(tmp_path: Path) -> None:
    assert uses_grace(os.getpid(), [])


def test_a_script_that_listens_may_save_when_another_rank_is_killed(tmp_path: Path) -> None:
    listens = """
import os, signal, sys
def save(number, frame):
    open("saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""
    dies = """
open("rank" + os.environ["RANK"], "w").close()
while not os.path.exists("rank0") or not os.path.exists("rank1"):
    time.sleep(0.01)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    running = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=listens + RANK.format(body=dies))
    assert running.finish() == 137, running.err
    assert (tmp_path / "saved").exists()
