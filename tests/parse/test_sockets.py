# SPDX-License-Identifier: Apache-2.0
"""The operating system's words for network errors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import BindFailed, ConnectFailed, NameUnresolved, PeerLost, PortTaken, Why
from keepstep.parse.tools.network import sockets
from tests.parse.reading import reader

read = reader(sockets)


SAID = [
    (
        "[u10][[38971,1],2][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 172.17.0.1 failed: Connection refused (111)",
        ConnectFailed(why=Why.REFUSED, peer="172.17.0.1", given_out=True),
    ),
    ("OSError: [Errno 98] Address already in use", PortTaken()),
    (
        "[E socket.cpp:860] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        PortTaken(port=29500, address="[::]"),
    ),
    (
        "[E1231 23:59:59.1 socket.cpp:481] [c10d] The server socket has failed to bind to 0.0.0.0:29411 (errno: 98 - Address already in use).",
        PortTaken(port=29411, address="0.0.0.0"),
    ),
    (
        "port: 29500, useIpv6: true, code: -98, name: EADDRINUSE, message: address already in use",
        PortTaken(port=29500),
    ),
    ("socket.gaierror: [Errno -2] Name or service not known", NameUnresolved()),
    ("van.h:206: Check failed: (getaddrinfo(host.c_str(), port, nullptr, &to)) == (0)", NameUnresolved()),
    ("ssh: Could not resolve hostname node-7: Name or service not known", NameUnresolved(host="node-7")),
    (
        "[c10d] The IPv6 network addresses of (job-master-0, 23456) cannot be retrieved (gai error: -2 - Name or service not known).",
        NameUnresolved(host="job-master-0"),
    ),
    (
        "dial tcp: lookup job-worker-1.ns.svc on 10.96.0.10:53: no such host",
        NameUnresolved(host="job-worker-1.ns.svc"),
    ),
    ("OSError: [Errno 113] No route to host", ConnectFailed(why=Why.UNREACHABLE)),
    ("ConnectionRefusedError: [Errno 111] Connection refused", ConnectFailed(why=Why.REFUSED)),
    (
        "ssh: connect to host node2 port 22: Connection timed out",
        ConnectFailed(why=Why.TIMED_OUT, peer="node2"),
    ),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", PeerLost(how="connection reset")),
    ("bind: Cannot assign requested address 10.1.2.3", BindFailed(address="10.1.2.3")),
]

HARMLESS = [
    "node1:1:2 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use",
    "Port 6006 address already in use, trying the next one",
    "sudo: unable to resolve host box: Name or service not known",
    "wandb: Network error (ConnectionError): Failed to resolve 'api.wandb.ai' ([Errno -2] Name or service not known)",
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot assign requested address).",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []
