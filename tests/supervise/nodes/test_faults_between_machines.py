"""Faults between the machines of a run: cut cables, dead agents and leaders, signals. `docs/nodes-faults.md` has more.

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

from keepstep.lab import hosts as lab
from tests.supervise.nodes.machines import Agent, Machines

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


@pytest.mark.parametrize("target", ["DROP", pytest.param("REJECT", marks=pytest.mark.long)])
def test_a_cut_of_five_seconds_is_named_and_survived(machines: Machines, target: str):
    leader, other = two_agents(machines)
    ranks = machines.pids(0, 2)
    began = time.monotonic()
    machines.drop(1, target=target)
    assert leader.says("node-1, with rank 1, has been silent", 10) - began < SOON_S
    time.sleep(max(0.0, began + 5.0 - time.monotonic()))
    machines.mend(1)
    leader.says("node-1 is back after")
    time.sleep(1.0)
    assert machines.pids(0, 2) == ranks
    machines.finish()
    assert ended(machines, leader, other) == [0, 0]
    assert list(machines.spans()) == [0], "the run was not restarted"
    assert why(machines).startswith("healthy")


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
def test_all_ranks_of_a_node_killed_come_back_with_the_others(machines: Machines):
    leader, other = two_agents(machines)
    killed = next(path for path in machines.ran(0, 2) if "node-1" in path.name)
    os.kill(int(killed.name.rpartition("-")[2]), signal.SIGKILL)
    machines.wait_for_attempt(1, 2)
    machines.finish()
    assert ended(machines, leader, other) == [0, 0]
    assert "rank 1 on node-1 ended with SIGKILL" in leader.said
    assert "rank 1 (node-1)" in why(machines)


@pytest.mark.long
def test_a_second_run_needs_a_port_of_its_own(machines: Machines):
    agents = two_agents(machines)
    second = machines.meet(0)
    assert second.ended() == 2
    assert "give each run a port of its own" in second.said
    more = machines.meet(0, port=23401), machines.meet(1, port=23401)
    for agent in more[:1]:
        agent.says("on 2 nodes")
    machines.finish()
    assert ended(machines, *agents, *more) == [0, 0, 0, 0]


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
@pytest.mark.parametrize("chains", [("INPUT",), ("OUTPUT",), ("INPUT", "OUTPUT")], ids=["in", "out", "both"])
def test_a_cut_node_is_done_without_and_never_two_attempts_run_at_once(machines: Machines, chains: tuple[str, ...]):
    leader, other = two_agents(machines, *TWO)
    began = time.monotonic()
    machines.drop(1, chains=chains)
    assert leader.says("has been silent", 10) - began < SOON_S
    assert machines.wait_for_attempt(1, 1) - began < 20.0
    machines.mend(1)
    leader.says("node-1 can take part")
    machines.finish()
    assert ended(machines, leader, other) == [0, 0]
    assert "node-1, with rank 1, went silent" in why(machines)


@pytest.mark.long
def test_the_run_ends_everywhere_when_its_leader_is_killed(machines: Machines):
    leader, other = two_agents(machines)
    leader.process.kill()
    assert other.ended(120) == 1
    assert "no word from the leader" in other.said
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
