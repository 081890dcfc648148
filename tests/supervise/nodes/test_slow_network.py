# SPDX-License-Identifier: Apache-2.0
"""A link that is far too slow for what ranks send is reported while they run, and at the end; a good one is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.sources.host.tcp_counts import TcpCounts
from keepstep.supervise.watch import slow_network
from keepstep.supervise.watch.slow_network import SlowNetwork, Waits
from keepstep_lab import hosts as lab
from keepstep_lab.machines import Machines, wait_for

EXCHANGE = """
import os, socket, sys, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    peer = socket.create_server(address).accept()[0]
else:
    for _ in range(600):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def receive(wanted):
    while wanted:
        wanted -= len(peer.recv(wanted))
open(f"{sys.argv[1]}/0-{rank}-2-{os.uname().nodename}-{os.getpid()}", "w").write("0\\n")
going = True
while going:
    time.sleep(0.05)
    going = not os.path.exists(f"{sys.argv[1]}/done")
    if rank == 0:
        peer.sendall(bytes([going]) * 12_000)
        receive(12_000)
    else:
        going = bool(peer.recv(1)[0])
        receive(11_999)
        peer.sendall(bytes(12_000))
print("rank", rank, "is done")
"""
QUIET = TcpCounts("10.0.0.1", "10.0.0.2", rtt_s=0.0002)
SECONDS = 60


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path)
    for host in (0, 1):
        made.of(host, "work", "train.py").write_text(EXCHANGE)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing()))
def test_a_link_of_128_kbit_is_named_while_the_run_goes_on_and_in_its_report(machines: Machines) -> None:
    machines.net.do(1, *"tc qdisc add dev eth0 root tbf rate 128kbit burst 4kb latency 400ms".split())
    leader, other = machines.meet(0, "--nodes", "2"), machines.meet(1, "--nodes", "2")
    machines.wait_for_attempt(0, 2)
    leader.says("node-1: the network is slow: ")
    assert "data of rank 1 was on its way to 198.18.0.1" in leader.said
    machines.finish()
    assert (leader.ended(), other.ended()) == (0, 0)
    assert "the network is slow: what rank 1 sent to 198.18.0.1 went at " in leader.said
    assert "keepstep rules show SLO202" in leader.said


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing()))
def test_nothing_is_said_about_a_good_link(machines: Machines) -> None:
    leader, other = machines.meet(0, "--nodes", "2"), machines.meet(1, "--nodes", "2")
    began = machines.wait_for_attempt(0, 2)
    wait_for(lambda: time.monotonic() - began > 1.5 * slow_network.WINDOW_S, "more than a window of it")
    machines.finish()
    assert (leader.ended(), other.ended()) == (0, 0)
    assert "network" not in leader.said


# --- what is slow, and what is not


def seen(monkeypatch: pytest.MonkeyPatch, each_second: TcpCounts) -> list[Waits]:
    """What is said about a connection whose counts grow by this every second."""
    monkeypatch.setattr(slow_network, "sockets_of", lambda pids: {7})
    look = [QUIET]
    watch, found = SlowNetwork(counts=lambda: {7: look[0]}), []
    for second in range(SECONDS):
        found += watch.see({3: 1}, float(second))
        before = look[0]
        look[0] = replace(
            each_second,
            acked=before.acked + each_second.acked,
            busy_s=before.busy_s + each_second.busy_s,
            full_s=before.full_s + each_second.full_s,
        )
    return found


SLOW = replace(QUIET, acked=16_000, busy_s=0.95, not_sent=40_000, rtt_s=0.3)


def test_a_slow_connection_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = seen(monkeypatch, SLOW)
    assert (found.rank, found.peer) == (3, "10.0.0.2")
    assert found.bytes_s == pytest.approx(16_000 / 0.95)
    assert found.words == (
        "the network is slow: in 95% of the last 20 s, data of rank 3 was on its way to 10.0.0.2, which took 16.8 kB/s"
    )


@pytest.mark.parametrize(
    "each_second",
    [
        pytest.param(replace(SLOW, busy_s=0.3), id="the rank computes most of the time"),
        pytest.param(replace(SLOW, full_s=0.9), id="the other rank does not read"),
        pytest.param(replace(SLOW, acked=60_000_000), id="much is carried"),
        pytest.param(replace(SLOW, not_sent=0, rtt_s=0.04), id="small messages, confirmed late"),
        pytest.param(replace(SLOW, acked=100), id="heartbeats"),
        pytest.param(replace(SLOW, peer="127.0.0.1"), id="within the host"),
        pytest.param(replace(SLOW, peer="10.0.0.1"), id="within the host by its own address"),
    ],
)
def test_what_is_not_slow(monkeypatch: pytest.MonkeyPatch, each_second: TcpCounts) -> None:
    assert seen(monkeypatch, each_second) == []
