"""Remedies that need another path: machines with two interfaces, or with blocked ports; torch and JAX with gloo."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep_lab import hosts as lab
from keepstep_lab.machines import PORT, Agent, Machines

pytestmark = [pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing())), pytest.mark.frameworks]
DEAD = "198.19.7"
JOBS = Path(__file__).parent / "jobs"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path)
    yield made
    made.close()


def start(machines: Machines, job_name: str, *options: str) -> list[Agent]:
    """One agent on each machine."""
    agents = []
    for host in range(machines.net.count):
        machines.of(host, "work", "train.py").write_text((JOBS / f"{job_name}.py").read_text())
        where = ("--node-rank", str(host), "--meet", f"{lab.address(0)}:{PORT}", "--per-node", "1")
        job = (sys.executable, "train.py", "10", str(machines.folder / "done"))
        agents.append(machines.start(host, *where, *options, env={"KEEPSTEP": "on"}, script=job))
    return agents


def run(machines: Machines, job_name: str, *options: str) -> Agent:
    """Both agents; the leader's, once both have ended."""
    agents = start(machines, job_name, "--nodes", "2", *options)
    for agent in agents:
        agent.ended(240.0)
    return agents[0]


def manifest(machines: Machines) -> dict[str, object]:
    (path,) = machines.of(0, "work").glob(".keepstep/runs/*/manifest.json")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def why(machines: Machines) -> str:
    command = [sys.executable, "-m", "keepstep", "why", "last"]
    done = subprocess.run(command, cwd=machines.of(0, "work"), capture_output=True, text=True, timeout=60)
    return done.stdout


def add_dead_interface(machines: Machines) -> None:
    """A second one on each machine, that no cable joins, and to which the machine's own name leads."""
    every = range(machines.net.count)
    names = "".join(f"{DEAD}.{host + 1} {lab.name(host)}\n" for host in every)
    (machines.folder / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}")
    for host in every:
        machines.net.do(host, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "cable1")
        machines.net.do(host, "ip", "link", "set", "cable1", "up")
        machines.net.do(host, "ip", "addr", "add", f"{DEAD}.{host + 1}/24", "dev", "eth1")
        machines.net.do(host, "ip", "link", "set", "eth1", "up")


def rename_interface(machines: Machines, host: int, name: str) -> None:
    for words in (("eth0", "down"), ("eth0", "name", name), (name, "up")):
        machines.net.do(host, "ip", "link", "set", *words)


def block_ports(machines: Machines, first: int = 15000, last: int = 32767) -> None:
    """On the first machine, but for the port where agents meet. keepstep takes the ranks' ports from this range."""
    machines.net.do(0, "iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "--dport", str(PORT), "-j", "ACCEPT")
    blocked = ("-i", "eth0", "-p", "tcp", "--dport", f"{first}:{last}", "-j", "DROP")
    machines.net.do(0, "iptables", "-A", "INPUT", *blocked)


@pytest.mark.long
@pytest.mark.parametrize("job", ["torch_small", pytest.param("jax_small", marks=pytest.mark.long)])
def test_a_run_on_the_wrong_interface_comes_back_on_the_one_that_routes(machines: Machines, job: str):
    add_dead_interface(machines)
    leader = run(machines, job)
    assert leader.process.returncode == 0, leader.said
    assert "[network.wrong_interface]" in leader.said, leader.said
    remedy = "remedy: use the interface eth0 (198.18.0.1 of node-0 and 198.18.0.2 of node-1)"
    assert remedy in leader.said, leader.said
    assert leader.said.index(remedy) < leader.said.index("step 4: 3 through eth0")
    assert manifest(machines)["remedies"] == ["pin eth0"]
    told = why(machines)
    assert told.startswith("attempt 0 ended: node-0 gives out 198.19.7.1, which other hosts cannot reach")
    assert "network.wrong_interface" in told
    assert machines.left() == []


@pytest.mark.long
def test_a_run_moves_off_ports_that_are_blocked(machines: Machines):
    block_ports(machines)
    leader = run(machines, "torch_small")
    assert leader.process.returncode == 0, leader.said
    assert "node-1 gets no answer from node-0 on port" in leader.said, leader.said
    assert "[network.unreachable_or_firewall]" in leader.said
    found = re.search(r"remedy: use the ports (\d+) to (\d+) of node-0, which the other hosts reach", leader.said)
    assert found is not None and not {int(found[1]), int(found[2])} & set(range(15000, 32768)), leader.said
    assert manifest(machines)["remedies"] == [f"ports {found[1]} to {found[2]} of node-0"]
    assert machines.left() == []


@pytest.mark.long
def test_without_remedies_the_cause_is_named_and_the_run_ends(machines: Machines):
    add_dead_interface(machines)
    leader = run(machines, "torch_small", "--remedy", "off")
    assert leader.process.returncode == 1, leader.said
    assert "decision: end the run" in leader.said
    assert "advice: use the interface eth0" in leader.said
    assert "remedy:" not in leader.said
    assert manifest(machines)["remedies"] == []


@pytest.mark.long
def test_a_spare_that_takes_a_place_is_pinned_to_its_own_interface(tmp_path: Path):
    machines = Machines(3, tmp_path)
    try:
        rename_interface(machines, 2, "net7")
        add_dead_interface(machines)
        agents = start(machines, "torch_slow", "--nodes", "2", "--spare-nodes", "1")
        agents[0].says("step 3: 3 through eth0", 240.0)
        agents[1].process.kill()
        agents[0].says("remedy: use the interface net7 of node-2, which all hosts reach", 120.0)
        (tmp_path / "done").touch()
        assert agents[0].ended(240.0) == 0, agents[0].said
        after = agents[0].said.partition("node-2 (node 2) replaces node-1 (node 1)")[2]
        assert "step 3: 3 through eth0" in after, agents[0].said
        assert "through net7" in agents[2].said, agents[2].said
        assert manifest(machines)["remedies"] == ["pin eth0"]
    finally:
        machines.close()
