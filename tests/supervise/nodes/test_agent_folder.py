# SPDX-License-Identifier: Apache-2.0
"""The folder of an agent whose reaper was killed with it is removed by the next agent on the node."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.supervise.nodes.agent.agent_folder import LOCK, PREFIX, YOUNG_S, make_room, sweep

AGENT = """
import sys, time
from keepstep.supervise.nodes.agent.agent_folder import make_room
print(make_room(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def agent(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another agent with a folder, as if it had been started a while ago."""
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(place)}
    )
    assert process.stdout is not None
    room = Path(process.stdout.readline().strip())
    grow_old(room)
    return process, room


def grow_old(room: Path) -> None:
    old = time.time() - YOUNG_S - 1.0
    os.utime(room / LOCK, (old, old))


def test_the_folder_of_a_dead_agent_is_removed_and_that_of_a_living_one_is_not(place: Path) -> None:
    dead, left = agent(place)
    living, used = agent(place)
    with dead, living:
        dead.kill()
        dead.wait()
        (left / "attempt-0").mkdir()
        own = make_room()
        assert not left.exists()
        assert used.exists() and own.exists()
        grow_old(own)
        sweep(place)
        assert own.exists(), "this process lives"
        living.kill()


def test_what_is_not_surely_left_is_not_touched(place: Path) -> None:
    foreign, young = place / f"{PREFIX}without-a-lock", place / f"{PREFIX}young"
    elsewhere, link = place / "elsewhere", place / f"{PREFIX}link"
    for folder in (foreign, young, elsewhere):
        folder.mkdir()
    (young / LOCK).touch()
    (elsewhere / LOCK).touch()
    grow_old(elsewhere)
    link.symlink_to(elsewhere)
    sweep(place)
    assert foreign.exists() and young.exists() and elsewhere.exists() and link.is_symlink()
    sweep(place / "no such folder")
