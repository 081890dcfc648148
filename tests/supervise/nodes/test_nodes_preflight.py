"""The fast parts of the check on all nodes of a run, before its first attempt."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep_lab import hosts as lab
from keepstep_lab.machines import PORT, Agent, Machines

pytestmark = pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing()))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path)
    yield made
    made.close()


def started(machines: Machines, *options: str, wrong: dict[str, str] | None = None) -> list[Agent]:
    """``wrong``: variables of the second machine."""
    where = ("--nodes", "2", "--meet", f"{lab.name(0)}:{PORT}", "--per-node", "1", "--grace", "2")
    return [
        machines.start(host, *where, "--node-rank", str(host), *options, check=True, env=wrong if host else None)
        for host in range(2)
    ]


def why(machines: Machines) -> str:
    command = [sys.executable, "-m", "keepstep", "why", "last"]
    return subprocess.run(command, cwd=machines.of(0, "work"), capture_output=True, text=True, timeout=60).stdout


def test_what_would_surely_fail_on_one_host_is_named_and_nothing_is_started(machines: Machines):
    leader, other = started(machines, wrong={"GLOO_SOCKET_IFNAME": "eth9"})
    assert leader.ended() == 1, leader.said
    assert other.ended() == 1, other.said
    assert "check: GLOO_SOCKET_IFNAME=eth9 selects no interface of node-1" in leader.said, leader.said
    assert "the check found what would kill the run; nothing was started" in leader.said
    assert not list(machines.witness.iterdir())
    told = why(machines)
    assert "GLOO_SOCKET_IFNAME=eth9 selects no interface of node-1" in told and "network.wrong_interface" in told
    assert machines.left() == []


def test_what_may_fail_is_only_said(machines: Machines):
    machines.net.do(1, "mount", "-t", "tmpfs", "-o", "size=20m", "little", str(machines.of(1, "tmp")))
    agents = started(machines)
    machines.wait_for_attempt(0, 2)
    machines.finish()
    assert [agent.ended() for agent in agents] == [0, 0], agents[0].said
    assert re.search(r"check: only 2\d\.\d MB is free at \S+ on node-1", agents[0].said), agents[0].said
    assert why(machines).startswith("healthy")


def test_warnings_are_printed_and_count_only_if_the_run_fails(machines: Machines):
    agents = started(machines, "--max-attempts", "2")
    machines.wait_for_attempt(0, 2)
    agents[0].says("check: /dev/shm has 67.1 MB free of 67.1 MB on node-0", 20.0)
    (machines.witness / "fail-0-1").touch()
    machines.wait_for_attempt(1, 2)
    machines.finish()
    assert [agent.ended() for agent in agents] == [0, 0], agents[0].said
    (run,) = machines.of(0, "work").glob(".keepstep/runs/*")
    assert (run / "attempt-0" / "check.jsonl").is_file()
    assert not (run / "attempt-1" / "check.jsonl").exists()
    assert agents[0].said.count("check: /dev/shm has 67.1 MB free of 67.1 MB on node-1") == 1
    assert "healthy  the last attempt ended well" in why(machines)
