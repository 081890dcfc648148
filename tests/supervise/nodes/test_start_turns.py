# SPDX-License-Identifier: Apache-2.0
"""Agents on one host start their ranks one after the other."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.supervise.nodes.agent import heartbeat
from keepstep.supervise.nodes.agent.start_turns import turn

HOLDER = """
import sys, time
from pathlib import Path
from keepstep.supervise.nodes.agent.start_turns import turn
with turn(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """Another process that has the turn now, for ``seconds``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "mine\n"
    return process


def waited(folder: Path, longest_s: float = 60.0) -> float:
    began = time.monotonic()
    with turn(folder, longest_s=longest_s):
        return time.monotonic() - began


def test_one_waits_for_the_other(tmp_path: Path) -> None:
    with holder(tmp_path, 1.5) as other:
        assert waited(tmp_path) > 0.5
        assert other.wait(10.0) == 0
    assert waited(tmp_path) < 0.5


def test_the_turn_of_an_agent_that_was_killed_is_over(tmp_path: Path) -> None:
    with holder(tmp_path, 600.0) as other:
        other.kill()
        assert waited(tmp_path) < 30.0


def test_an_agent_that_is_frozen_in_its_turn_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with holder(tmp_path, 600.0) as other:
        assert 0.5 <= waited(tmp_path, 0.5) < 30.0
        other.kill()
    assert waited(tmp_path) < 30.0, "who gave up does not keep the turn"


def test_where_nothing_can_be_locked_nobody_waits(tmp_path: Path) -> None:
    assert waited(tmp_path / "no" / "such" / "folder") < 0.5


def test_no_file_is_left_behind(tmp_path: Path) -> None:
    waited(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("load", "crowded"), [(0.5, False), (4.0, False), (4.1, True), (100.0, True)])
def test_a_host_is_crowded_when_many_more_want_to_run_than_can(
    load: float, crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_load", lambda: load)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert heartbeat.Crowd().is_here() is crowded
