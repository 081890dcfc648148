"""Remedies that need another path, on machines with two interfaces each or with blocked ports; real torch with gloo."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.lab import hosts as lab
from tests.supervise.nodes.machines import PORT, Agent, Machines

pytestmark = [pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing())), pytest.mark.frameworks]
DEAD = "198.19.7"
JOB = Path(__file__).parent / "jobs" / "torch_small.py"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path)
    for host in range(2):
        made.of(host, "work", "train.py").write_text(JOB.read_text())
    yield made
    made.close()


def run(machines: Machines, *options: str, limit_s: float = 10.0) -> Agent:
    """Both agents; the leader's, once both have ended."""
    agents = []
    for host in range(2):
        where = ("--nodes", "2", "--node-rank", str(host), "--meet", f"{lab.address(0)}:{PORT}", "--per-node", "1")
        job = (sys.executable, "train.py", str(limit_s))
        agents.append(machines.start(host, *where, *options, env={"KEEPSTEP": "on"}, script=job))
    for agent in agents:
        agent.ended(150.0)
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
    names = "".join(f"{DEAD}.{host + 1} {lab.name(host)}\n" for host in range(2))
    (machines.folder / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}")
    for host in range(2):
        machines.net.do(host, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "cable1")
        machines.net.do(host, "ip", "link", "set", "cable1", "up")
        machines.net.do(host, "ip", "addr", "add", f"{DEAD}.{host + 1}/24", "dev", "eth1")
        machines.net.do(host, "ip", "link", "set", "eth1", "up")


def block_ports(machines: Machines, first: int = 15000, last: int = 32767) -> None:
    """On the first machine, but for the port where agents meet. keepstep takes the ranks' ports from this range."""
    machines.net.do(0, "iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "--dport", str(PORT), "-j", "ACCEPT")
    blocked = ("-i", "eth0", "-p", "tcp", "--dport", f"{first}:{last}", "-j", "DROP")
    machines.net.do(0, "iptables", "-A", "INPUT", *blocked)


def test_a_run_on_the_wrong_interface_comes_back_on_the_one_that_routes(machines: Machines):
    add_dead_interface(machines)
    began = time.monotonic()
    leader = run(machines)
    print(leader.said, f"{time.monotonic() - began:.1f} s")
    assert leader.process.returncode == 0, leader.said
    assert "[network.wrong_interface]" in leader.said
    assert "remedy: use the interface eth0 (198.18.0.1 of node-0 and 198.18.0.2 of node-1)" in leader.said
    assert "step 4: 3 through eth0" in leader.said
    assert manifest(machines)["remedies"] == ["pin eth0"]
    assert "network.wrong_interface" in why(machines)
    assert machines.left() == []
