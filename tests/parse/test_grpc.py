# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.network import ConnectFailed, NameUnresolved, PeerLost, PortTaken, Why
from keepstep.core.facts.training import MessageTooLarge
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.network import grpc


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = grpc.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "UnavailableError: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.2:2222: Failed to connect to remote host: Connection refused",
            ConnectFailed(why=Why.REFUSED, peer="10.0.0.2:2222"),
        ),
        (
            "E0625 11:21:16.511111376    3825 tcp_client_posix.c:191]     failed to connect to 'ipv4:10.0.0.7:30002': timeout occurred",
            ConnectFailed(why=Why.TIMED_OUT, peer="10.0.0.7:30002", final=False),
        ),
        (
            "2021-05-02 12:11:03.4: W tensorflow/x.cc:1] failed to connect to all addresses",
            ConnectFailed(why=Why.FAILED, final=False),
        ),
        (
            "No address added out of total 1 resolved for '0.0.0.0:2222'",
            PortTaken(address="0.0.0.0:2222", port=2222),
        ),
        ("DNS resolution failed for worker-1", NameUnresolved(host="worker-1")),
        ("UNAVAILABLE: Socket closed", PeerLost(how="Socket closed")),
        ("errors_impl.UnavailableError: Connection reset by peer [Op:Run]", PeerLost(how="Connection reset by peer")),
        (
            "W preemption_sync_manager.cc:170] Failed to retrieve preemption notice: UNAVAILABLE: Socket closed",
            PeerLost(how="Socket closed", final=False),
        ),
        (
            "E0214 01:33:19.5 19893 proto_buffer_writer.h:83]   assertion failed: byte_count_ < total_size_",
            MessageTooLarge(what="gRPC message", size="2 GiB"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "keepalive is on",
        "grpc server listening on 0.0.0.0:2222",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


def test_a_leader_that_refuses_a_task_it_knew_has_gone() -> None:
    line = "WatchTasksAsync failed for task 1: UNAVAILABLE: failed to connect to all addresses; last error: ipv4:10.0.0.1:3257: Connection refused"
    assert read(line) == [
        PeerLost(how="the coordination leader does not answer", peer="the coordination leader", peer_rank=0),
    ]
