# SPDX-License-Identifier: Apache-2.0
"""Real faults between simulated hosts: each is found, named by its ends, and nothing else is."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep_lab.hosts import address, name
from tests.check.conftest import Cluster, until

NEW = ("-i", "eth0", "-p", "tcp", "--syn")
SHAPE = ("root", "tbf", "rate", "10mbit", "burst", "4kb", "latency", "400ms")


def block(cluster: Cluster, host: int, *rule: str) -> None:
    cluster.hosts.do(host, "iptables", "-A", "INPUT", *rule)


@pytest.mark.parametrize("cluster", [2, pytest.param(4, marks=pytest.mark.long)], indirect=True)
@pytest.mark.parametrize("torch", [False, True], ids=["tensorflow", "torch"])
def test_a_healthy_cluster_gives_no_finding(cluster: Cluster, torch: bool) -> None:
    ended = cluster.check(torch=torch)
    assert ended.titles == []
    assert ended.statuses == [0] * cluster.count
    assert ended.outputs[1:] == [""] * (cluster.count - 1)
    looked = {each["what"]: each["state"] for each in ended.report["coverage"]}
    assert looked[f"{cluster.count * (cluster.count - 1)} links between {cluster.count} hosts"] == "checked"
    if not torch:
        grpc = next(what for what in looked if what.startswith("gRPC calls"))
        assert looked[grpc] == ("checked" if importlib.util.find_spec("grpc") else "unavailable")


@pytest.mark.parametrize("torch", [False, pytest.param(True, marks=pytest.mark.long)], ids=["tensorflow", "torch"])
def test_a_pair_whose_packets_are_dropped_is_named_and_the_printed_rule_opens_it(cluster: Cluster, torch: bool) -> None:
    for one, other in ((1, 2), (2, 1)):
        block(cluster, one, *NEW, "-s", address(other), "-j", "DROP")
    ended = cluster.check(torch=torch)
    assert ended.rules == ["NET104"]
    assert "node-1 and node-2" in ended.titles[0] or "node-2 and node-1" in ended.titles[0]
    assert ended.report["findings"][0]["ranks"] == [1, 2]
    assert ended.statuses == [1, 1, 1]
    for one, other in ((1, 2), (2, 1)):
        command = ended.command()
        assert address(other) in command
        cluster.hosts.do(one, *shlex.split(command))
    assert cluster.check(torch=torch).titles == []


def test_a_host_that_drops_every_connection_is_named_once(cluster: Cluster) -> None:
    block(cluster, 1, *NEW, "-j", "DROP")
    ended = cluster.check()
    assert ended.titles == ["no host gets an answer from node-1 on port 2222"]
    assert ended.report["findings"][0]["cause"] == "network.unreachable_or_firewall"
    cluster.hosts.do(1, *shlex.split(ended.command()))
    assert cluster.check().titles == []


@pytest.mark.parametrize(
    "how", [pytest.param("icmp-port-unreachable", marks=pytest.mark.long), "icmp-host-prohibited", "tcp-reset"]
)
def test_a_firewall_that_rejects_is_told_from_one_that_drops(cluster: Cluster, how: str) -> None:
    block(cluster, 2, *NEW, "-j", "REJECT", "--reject-with", how)
    ended = cluster.check()
    assert (
        ended.titles[0] == "every connection to node-2 on port 2222 is rejected"
    )  # a crowded machine may also have a slow link
    assert "firewall" in ended.report["findings"][0]["because"]


def test_connections_that_are_cut_as_soon_as_they_stand_are_told_from_refused_ones(cluster: Cluster) -> None:
    rule = ("-i", "eth0", "-p", "tcp", "--dport", "2222", "!", "--syn", "-m", "length", "--length", "60:65535")
    block(cluster, 2, *rule, "-j", "REJECT", "--reject-with", "tcp-reset")
    ended = cluster.check()
    assert (
        ended.titles[0] == "every connection to node-2 on port 2222 is rejected"
    )  # a crowded machine may also have a slow link
    assert "opened and was cut" in ended.report["findings"][0]["because"]


@pytest.mark.parametrize("cluster", [2, pytest.param(3, marks=pytest.mark.long)], indirect=True)
def test_a_link_that_is_open_in_one_direction_only_is_named(cluster: Cluster) -> None:
    block(cluster, 1, *NEW, "-s", address(0), "-j", "DROP")
    ended = cluster.check()
    assert ended.titles == ["node-0 gets no answer from node-1 on port 2222, while node-1 reaches node-0"]
    cluster.hosts.do(1, *shlex.split(ended.command()))
    assert cluster.check().titles == []


@pytest.mark.long
def test_a_firewall_that_opens_only_the_known_port_matters_to_torch_and_not_to_tensorflow(cluster: Cluster) -> None:
    for host in range(3):
        block(cluster, host, *NEW, "-m", "multiport", "!", "--dports", "2222,29500,23400:24399", "-j", "DROP")
    assert cluster.check().titles == []
    ended = cluster.check(torch=True)
    assert set(ended.rules) == {"NET104"}
    assert all("Gloo" in title for title in ended.titles)


@pytest.mark.parametrize(
    "cluster", [2, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)], indirect=True
)
def test_a_host_on_a_slow_cable_is_named(cluster: Cluster) -> None:
    last = cluster.count - 1
    cluster.hosts.at_switch("tc", "qdisc", "add", "dev", f"port{last}", *SHAPE)
    cluster.hosts.do(last, "tc", "qdisc", "add", "dev", "eth0", *SHAPE)
    ended = cluster.check()
    assert ended.rules == ["NET107"]
    assert name(last) in ended.titles[0] and "Mbit/s" in ended.titles[0]
    if cluster.count > 2:
        assert ended.titles[0].startswith(f"{name(last)} is slow")
        assert ended.report["findings"][0]["ranks"] == [last]


@pytest.mark.parametrize("cluster", [2, pytest.param(4, marks=pytest.mark.long)], indirect=True)
def test_a_cable_that_is_slow_in_one_direction_is_named_with_the_direction(cluster: Cluster) -> None:
    cluster.hosts.at_switch("tc", "qdisc", "add", "dev", "port1", *SHAPE)
    ended = cluster.check()
    assert ended.rules == ["NET107"]
    assert "to node-1" in ended.titles[0] or "node-1 is slow to receive" in ended.titles[0]


@pytest.mark.parametrize("cluster", [2, pytest.param(3, marks=pytest.mark.long)], indirect=True)
def test_a_black_hole_for_large_packets_is_named_with_the_size_that_passes(cluster: Cluster) -> None:
    for host in range(cluster.count):
        block(cluster, host, "-i", "eth0", "-p", "tcp", "-m", "length", "--length", "1301:65535", "-j", "DROP")
    ended = cluster.check()
    assert ended.rules == ["NET108"]
    assert "1280 bytes pass" in ended.titles[0]
    for host in range(cluster.count):
        cluster.hosts.do(host, *shlex.split(ended.command()))
        cluster.hosts.do(host, "ip", "link", "set", "dev", "eth0", "gso_max_segs", "1")
    assert cluster.check().titles == []


@pytest.mark.long
def test_a_black_hole_in_one_direction_is_named_by_its_host(cluster: Cluster) -> None:
    block(cluster, 2, "-i", "eth0", "-p", "tcp", "-m", "length", "--length", "1301:65535", "-j", "DROP")
    ended = cluster.check()
    assert ended.rules == ["NET108"]
    assert "to node-2 (2 links)" in ended.titles[0]


def test_an_address_that_nobody_has_is_named(cluster: Cluster) -> None:
    ended = cluster.check(worker2="198.18.0.200:2222")
    assert ended.titles == ["the job looks for node-2 at 198.18.0.200, which node-2 does not have"]
    assert ended.report["findings"][0]["ranks"] == [2]
    assert cluster.check(worker2=f"{address(2)}:2222").titles == []


def test_a_name_that_leads_to_another_host_is_named(cluster: Cluster, tmp_path: Path) -> None:
    table = tmp_path / "etc-hosts"
    right = table.read_text()
    table.write_text(right.replace(f"{address(2)} ", f"{address(1)} "))
    ended = cluster.check()
    assert ended.rules == ["NET110"]
    assert "node-2 resolves to 198.18.0.2" in ended.titles[0]
    table.write_text(right)
    assert cluster.check().titles == []


def test_a_name_that_does_not_resolve_is_named(cluster: Cluster) -> None:
    ended = cluster.check(worker2="no-such-host:2222")
    assert ended.rules == ["NET180"]
    assert "no-such-host" in ended.titles[0]


def test_a_clock_that_is_ahead_is_a_warning(cluster: Cluster) -> None:
    ended = cluster.check(torch=True, clocks={1: 37.0})
    assert ended.rules == ["NET109"]
    assert ended.titles[0].startswith("the clock of node-1 is 37 s ahead")
    assert ended.report["verdict"] == "degraded" and ended.report["findings"][0]["ranks"] == [1]


def test_a_port_of_the_job_that_is_held_is_said_and_another_one_tried(cluster: Cluster) -> None:
    code = "import socket,sys; s=socket.create_server(('', 2222)); print('ready', flush=True); sys.stdin.read()"
    command = [*cluster.hosts.inside(1), sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        ended = cluster.check()
        holder.communicate()
    assert ended.titles == []
    assert any(
        "port 2222 of node-1" in each["what"] and "tried on port" in each["why"] for each in ended.report["coverage"]
    )


@pytest.mark.long
def test_a_host_that_cannot_come_is_named_with_what_it_says_itself(cluster: Cluster) -> None:
    block(cluster, 0, *NEW, "-s", address(2), "-j", "DROP")
    ended = cluster.check(words=("--wait", "8"))
    assert ended.rules == ["NET101"]
    assert ended.titles[0].startswith("rank 2 (node-2) never joined: 2 of 3")
    assert ended.statuses == [1, 1, 1]
    assert '"rule": "NET102"' in ended.outputs[2] and "no answer" in ended.outputs[2]


def test_a_sample_of_rounds_says_what_it_left_out(cluster: Cluster) -> None:
    ended = cluster.check(words=("--sample", "1"))
    assert ended.titles == []
    assert any("--sample 1" in each["why"] for each in ended.report["coverage"])


def test_hosts_of_the_same_name_are_told_apart(cluster: Cluster) -> None:
    for host in range(3):
        cluster.hosts.do(host, "hostname", "localhost")
    block(cluster, 2, *NEW, "-s", address(1), "-j", "DROP")
    ended = cluster.check()
    assert ended.titles == [
        "localhost (rank 1) gets no answer from localhost (rank 2) on port 2222, "
        "while localhost (rank 2) reaches localhost (rank 1)"
    ]


def test_hosts_are_checked_over_ssh(cluster: Cluster, tmp_path: Path) -> None:
    ended = _over_ssh(cluster, tmp_path, "node-0,node-1,node-2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6 links between 3 hosts" in ended.stdout
    ended = _over_ssh(cluster, tmp_path, "node-0,node-1,elsewhere")
    assert ended.returncode == 1
    assert "the check could not be started on elsewhere" in ended.stdout
    assert "Permission denied" in ended.stdout


def test_an_interrupt_ends_what_was_started_over_ssh(cluster: Cluster, tmp_path: Path) -> None:
    command, env = _ssh(cluster, tmp_path, "node-0,node-1,hangs", wait=60)
    with subprocess.Popen(
        command, env={**env, "MARK": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        until(
            lambda: (
                sum("--member" in words for words in _marked(tmp_path)) == 2
                and any("sleep" in words for words in _marked(tmp_path))
            )
        )
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)
    assert started.returncode == 130
    until(lambda: not _marked(tmp_path), 20)


def _marked(folder: Path) -> list[str]:
    """The command lines of all processes started with this test's mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"MARK={folder}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


def _over_ssh(cluster: Cluster, tmp_path: Path, hosts: str) -> subprocess.CompletedProcess[str]:
    command, env = _ssh(cluster, tmp_path, hosts, wait=10)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def _ssh(cluster: Cluster, tmp_path: Path, hosts: str, wait: int) -> tuple[list[str], dict[str, str]]:
    """A stand-in for ssh that runs the command on a simulated host, and checks that no token is on the command line."""
    cases = "".join(
        f'{name(n)}) exec {shlex.join(cluster.hosts.inside(n))} sh -c "$*" ;;\n' for n in range(cluster.count)
    )
    script = f"""#!/bin/sh
case "$*" in *BatchMode=yes*) ;; *) exit 99 ;; esac
case "$*" in *KEEPSTEP_TOKEN=*) exit 98 ;; esac
while [ "$1" != -- ]; do shift; done; shift; host=$1; shift
case $host in
hangs) exec sleep 1000 ;;
{cases}*) echo "$host: Permission denied (publickey)." >&2; exit 255 ;;
esac
"""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "ssh").write_text(script)
    (folder / "ssh").chmod(0o755)
    remote = f"{sys.executable} -m keepstep"
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "check",
        "network",
        "--hosts",
        hosts,
        "--remote",
        remote,
        "--wait",
        str(wait),
    ]
    return command, {"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path)}


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_localhost_for_every_task_is_the_first_suspect_and_no_firewall(cluster: Cluster) -> None:
    ended = cluster.check(words=("--wait", "3"), worker0="localhost:2222", worker1="localhost:2223")
    reports = [ended.report, json.loads(ended.outputs[1])]
    for report in reports:
        assert [finding["rule"] for finding in report["findings"]] == ["CFG113"]
        assert report["findings"][0]["cause"] == "config.localhost_address"
        assert "iptables" not in json.dumps(report)
    assert ended.statuses == [1, 1]
