# SPDX-License-Identifier: Apache-2.0
"""``keepstep run --hosts`` over a real sshd on each machine, and cables that are cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.supervise.engines.ssh import LEASE_S
from keepstep_lab import sshd
from keepstep_lab.machines import Machines
from keepstep_lab.sshd import Sshd

pytestmark = pytest.mark.skipif(sshd.missing() is not None, reason=str(sshd.missing()))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(3, tmp_path)
    yield made
    made.close()


@pytest.fixture
def ssh(machines: Machines) -> Iterator[Sshd]:
    made = Sshd(machines)
    yield made
    made.close()


def test_a_host_that_refuses_ssh_ends_the_run_before_anything_starts(machines: Machines, ssh: Sshd):
    ssh.stop(2)
    run = ssh.run("--nodes", "2", on=(1, 2))
    assert run.ended() != 0
    assert "node-2: ssh: connect to host node-2 port 22: Connection refused" in run.said
    assert not machines.spans()
    assert machines.left() == []


@pytest.mark.long
@pytest.mark.parametrize("target", ["DROP", "REJECT"])
def test_a_cut_of_five_seconds_is_survived_over_the_one_connection_there_is(machines: Machines, ssh: Sshd, target: str):
    run = ssh.run("--nodes", "2", on=(1, 2))
    machines.wait_for_attempt(0, 2)
    ranks = machines.pids(0, 2)
    for _ in range(2):
        began = time.monotonic()
        machines.drop(2, target=target)
        time.sleep(max(0.0, began + 5.0 - time.monotonic()))
        machines.mend(2)
        time.sleep(LEASE_S)
    assert "node-2, with rank 1, has been silent" in run.said
    assert machines.pids(0, 2) == ranks
    machines.finish()
    assert run.ended() == 0
    assert list(machines.spans()) == [0], run.said
    assert machines.left() == []


@pytest.mark.long
@pytest.mark.parametrize("chains", [("INPUT",), ("OUTPUT",), ("INPUT", "OUTPUT")], ids=["in", "out", "both"])
def test_a_longer_cut_is_named_and_the_host_comes_back(machines: Machines, ssh: Sshd, chains: tuple[str, ...]):
    run = ssh.run("--nodes", "1:2", on=(1, 2))
    machines.wait_for_attempt(0, 2)
    machines.drop(2, chains=chains)
    machines.wait_for_attempt(1, 1)
    machines.mend(2)
    run.says("node-2 can take part")
    machines.finish()
    assert run.ended() == 0
    assert "node-2, with rank 1, went silent" in run.said
    assert machines.never_two_at_once(), machines.spans()
    assert machines.left() == []


@pytest.mark.long
def test_a_cut_that_ends_just_after_the_lease_blames_the_network_and_no_one_else(machines: Machines, ssh: Sshd):
    """The ranks were ended there by keepstep itself, and the node is heard again before the leader gives it up."""
    run = ssh.run("--nodes", "2", on=(1, 2))
    machines.wait_for_attempt(0, 2)
    began = time.monotonic()
    machines.drop(2)
    time.sleep(began + LEASE_S + 0.2 - time.monotonic())
    machines.mend(2)
    machines.wait_for_attempt(1, 2)
    machines.finish()
    assert run.ended() == 0
    assert "node-2, with rank 1, went silent [network.unreachable_or_firewall]" in run.said
    assert "killed from outside" not in run.said
    assert machines.never_two_at_once(), machines.spans()
    assert machines.left() == []


def test_the_command_of_the_docs_runs_where_no_shell_activates_the_environment(machines: Machines, ssh: Sshd):
    run = ssh.typed("run", "--no-check", "--no-spares", "--hosts", "node-1,node-2", "--per-node", "1", "--", "python")
    assert run.ended() == 0, run.said


def test_a_host_without_keepstep_is_no_fault_of_the_network(machines: Machines, ssh: Sshd):
    nowhere = ("--remote", "keepstep-of-nobody")
    run = ssh.run("--nodes", "2", *nowhere, "--max-attempts", "1", on=(1, 2))
    assert run.ended() != 0
    assert "ENV008" in run.said and "network." not in run.said, run.said
    check = ssh.typed("check", "config", "--hosts", "node-1,node-2", *nowhere)
    assert check.ended() == 1
    assert "ENV008" in check.said and "network." not in check.said, check.said


def test_an_ssh_client_that_is_killed_on_the_leaders_host_blames_no_node(machines: Machines, ssh: Sshd):
    run = ssh.run("--nodes", "2", on=(1, 2))
    machines.wait_for_attempt(0, 2)
    ssh.kill_client(2)
    machines.wait_for_attempt(1, 2)
    machines.finish()
    assert run.ended() == 0
    assert "the connection to node-2 was ended on the leader's own host" in run.said, run.said
    assert "the agent on node-2" not in run.said and "ssh node-2" not in run.said
