# SPDX-License-Identifier: Apache-2.0
"""What the servers and clients of DGL say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.network import BindFailed, ConnectFailed, PeerLost, PortTaken
from keepstep.parse.tools.trainers import dgl
from tests.parse.reading import reader

read = reader(dgl)


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "[14:49:15] /opt/dgl/src/rpc/network/tcp_socket.cc:76: Failed bind on 10.0.0.4:34567 , error: Success",
            PortTaken(port=34567),
        ),
        (
            "/opt/dgl/src/rpc/network/tcp_socket.cc:69: Failed bind on 10.0.0.4:3026 ,errno=99",
            BindFailed(address="10.0.0.4"),
        ),
        ("Error: port 30051 is not available.", PortTaken(port=30051)),
        (
            "DGLError: [11:33:22] /opt/dgl/src/rpc/network/socket_communicator.cc:197: Cannot bind to 10.0.0.4:3026",
            PortTaken(port=3026),
        ),
    ],
)
def test_a_server_that_cannot_listen(text, expected):
    assert read(text) == [expected]


@pytest.mark.parametrize(
    "text, kind",
    [
        ("Failed to send message to 3. Details: EOF: end of file (this error originated at tensorpipe)", PeerLost),
        ("[1:2:3] /opt/dgl/src/rpc/network/tcp_socket.cc:200: recv error: Connection reset by peer", PeerLost),
        ("Failed to connect to receiver[tcp://10.0.0.5:30050].", ConnectFailed),
        (
            "Incorrect address format:10.0.0.4 Please provide right address format, e.g, 'tcp://127.0.0.1:50051'.",
            ClusterSpecInvalid,
        ),
    ],
)
def test_the_other_refusals(text, kind):
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text", ["IP address not available for interface.", "Machine (0) client (1) connect to server successfuly!"]
)
def test_what_a_sound_start_prints_gives_nothing(text):
    assert read(text) == []
