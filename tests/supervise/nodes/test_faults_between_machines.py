"""Signals, spares and leaders that are started again. ``keepstep_lab.nodes`` has the faults between machines.

Those marked ``long`` wait for leases; run one with ``pytest -k NAME``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep_lab import hosts as lab
from keepstep_lab.machines import PORT, Agent, Machines, wait_for

pytestmark = pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing()))
SOON_S = 3.0
TWO = ("--nodes", "1:2")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path)
    yield made
    made.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(3, tmp_path)
    yield made
    made.close()


def two_agents(machines: Machines, *options: str) -> tuple[Agent, Agent]:
    """A run whose ranks are at work."""
    agents = machines.meet(0, *options), machines.meet(1, *options)
    machines.wait_for_attempt(0, 2)
    return agents


def why(machines: Machines, host: int = 0) -> str:
    """What `keepstep why last` says on this machine."""
    command = [sys.executable, "-m", "keepstep", "why", "last"]
    done = subprocess.run(command, cwd=machines.of(host, "work"), capture_output=True, text=True, timeout=60)
    return done.stdout


def ended(machines: Machines, *agents: Agent) -> list[int]:
    """Their statuses; nothing may be left, and no two attempts may have run at once."""
    statuses = [agent.ended() for agent in agents]
    assert machines.left() == []
    assert machines.never_two_at_once(), machines.spans()
    return statuses


@pytest.mark.long
def test_a_cut_that_was_survived_is_not_blamed_for_what_comes_later(three: Machines):
    agents = [three.meet(host, "--nodes", "2:3") for host in range(3)]
    leader = agents[0]
    three.wait_for_attempt(0, 3)
    three.drop(2)
    leader.says("node-2, with rank 2, has been silent", 10)
    three.mend(2)
    leader.says("node-2 is back after")
    os.kill(agents[1].process.pid, signal.SIGKILL)
    leader.says("decision:")
    assert "the agent on node-1, with rank 1, is gone" in leader.said, leader.said
    assert "node-2, with rank 2, went silent" not in leader.said, leader.said
    three.wait_for_attempt(1, 2)
    three.finish()
    assert [leader.ended(), agents[2].ended()] == [0, 0]
    assert three.left() == []


def test_a_signal_to_one_agent_ends_the_run_on_all_nodes(machines: Machines):
    leader, other = two_agents(machines)
    other.signal(signal.SIGTERM)
    assert ended(machines, leader, other) == [143, 143]
    assert "the run was ended from outside (SIGTERM)" in why(machines)


@pytest.mark.parametrize("again", [pytest.param(False, marks=pytest.mark.long), True])
def test_ctrl_c_at_the_leader_ends_the_run_on_all_nodes(machines: Machines, again: bool):
    leader, other = two_agents(machines)
    leader.signal(signal.SIGINT)
    if again:
        time.sleep(0.3)
        leader.signal(signal.SIGINT)
    assert ended(machines, leader, other) == [130, 130]


@pytest.mark.long
def test_a_spare_takes_the_place_of_a_node_whose_agent_is_killed(three: Machines):
    options = ("--nodes", "2", "--spare-nodes", "1")
    leader, other = two_agents(three, *options)
    spare = three.meet(2, *options)
    leader.says("spare: node-2")
    began = time.monotonic()
    other.process.kill()
    assert leader.says("its agent is gone", 10) - began < SOON_S
    three.wait_for_attempt(1, 2)
    three.finish()
    assert ended(three, leader, spare) == [0, 0]
    assert "node-2 (node 2) replaces node-1 (node 1)" in leader.said
    told = why(three)
    assert "the agent on node-1, with rank 1, is gone" in told
    assert "rank 1 (node-1)" in told


@pytest.mark.long
@pytest.mark.parametrize("options", [("--nodes", "2"), TWO], ids=["two", "one or two"])
def test_a_leader_that_is_started_again_at_once_ends_what_runs_and_goes_on(
    machines: Machines, options: tuple[str, ...]
):
    leader, other = two_agents(machines, *options)
    leader.process.kill()
    leader.process.wait()
    leader = machines.meet(0, *options)
    machines.wait_for_attempt(1, 2)
    machines.finish()
    assert ended(machines, leader, other) == [0, 0]
    assert sorted(machines.spans()) == [0, 1]
    runs = sorted(machines.of(0, "work").glob(".keepstep/runs/2*"))
    assert [[each.name for each in run.glob("attempt-*")] for run in runs] == [["attempt-0"], ["attempt-1"]]
    assert why(machines).startswith("healthy")


@pytest.mark.long
def test_a_leader_that_is_started_again_waits_for_the_lease_of_a_node_that_is_cut_off(machines: Machines):
    """That node has ranks of attempt 0, and a lease of the earlier leader. The new one has never heard of it."""
    leader, other = two_agents(machines, *TWO)
    machines.drop(1)
    leader.process.kill()
    leader.process.wait()
    leader = machines.meet(0, *TWO)
    machines.wait_for_attempt(0, 1)
    machines.mend(1)
    leader.says("node-1 can take part")
    machines.finish()
    assert [leader.ended(), other.ended()] == [0, 0]
    old = max(float(path.read_text().split()[-1]) for path in machines.ran(0, 2))
    new = min(float(path.read_text().split()[0]) for path in machines.ran(0, 1))
    assert old < new
    assert machines.left() == []


@pytest.mark.long
def test_a_host_with_two_failures_of_its_own_is_left_out(machines: Machines):
    leader, other = two_agents(machines, *TWO)
    other.process.kill()
    machines.wait_for_attempt(1, 1)
    other = machines.meet(1, *TWO)
    leader.says("node-1 can take part")
    os.kill(machines.pids(1, 1)[0], signal.SIGKILL)
    machines.wait_for_attempt(2, 2)
    other.process.kill()
    machines.wait_for_attempt(3, 1)
    other = machines.meet(1, *TWO)
    wait_for(lambda: f":{PORT}" in machines.net.do(1, "ss", "-tnH", "state", "established"), "its agent to connect")
    time.sleep(3.0)
    machines.finish()
    assert ended(machines, leader, other) == [0, 0]
    assert "node-1 is left out: 2 failures of its own (attempt 0: it went silent; attempt 2: it went s" in leader.said
    assert leader.said.count("node-1 can take part") == 1
    env = {**os.environ, **machines.variables(0)}
    command = [sys.executable, "-m", "keepstep", "runs", "--hosts"]
    told = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert told[0].startswith("node-1  1 run     2 failures of its own; the last ")
    assert told[1].split() == ["node-0", "1", "run", "no", "failure", "of", "its", "own"]
