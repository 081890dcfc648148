# SPDX-License-Identifier: Apache-2.0
"""ps-lite and the checks of its core."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing
from keepstep.core.facts.network import ConnectFailed, InterfaceMissing, PeerAwaited, PortTaken, RdmaTrouble, Why
from keepstep.core.facts.process import NativeAbort
from keepstep.parse.tools.trainers import ps_lite as table

WORDINGS = [
    (
        "[05:05:29] 3rdparty/ps-lite/include/dmlc/logging.h:276: [05:05:29] byteps/server/server.cc:52: "
        "Check failed: updates.merged.tensor init 10551296 first",
        NativeAbort,
        {"where": "byteps/server/server.cc:52"},
    ),
    ("[05:05:29] src/van.cc:440: Check failed: (my_node_.port) != (-1) bind failed", PortTaken, {}),
    ("src/van.cc:440: Check failed: my_node_.port != -1 (-1 vs. -1) : TCP:bind failed", PortTaken, {}),
    ("BYTEPS_SERVER_MXNET_PATH env not set", RankVariableMissing, {"name": "BYTEPS_SERVER_MXNET_PATH"}),
    (
        'src/postoffice.cc:20: Check notnull: Environment::Get()->find("DMLC_NUM_WORKER")',
        RankVariableMissing,
        {"name": "DMLC_NUM_WORKER"},
    ),
    (
        "[14:01:04] src/van.cc:446: ? => 1. Meta: request=0, timestamp=0, control={ cmd=ADD_NODE, node={ role=worker } }",
        PeerAwaited,
        {"peer": "the scheduler"},
    ),
    (
        "src/./zmq_van.h:180: failed to send message to node [8] errno: 113 No route to host",
        ConnectFailed,
        {"why": Why.UNREACHABLE},
    ),
    ("[13:30:33] src/van.cc:63: Check failed: !ip.empty() failed to get ip", InterfaceMissing, {}),
    ("[13:30:33] src/van.cc:292: Check failed: !interface.empty() failed to get the interface", InterfaceMissing, {}),
    (
        "include/ps/internal/van.h:56: Check failed: ready_ call Start() first",
        RankVariableMissing,
        {"name": "DMLC_ROLE"},
    ),
    ("[13:30:33] src/van.cc:39: Unsupported van type: rdma", ClusterSpecInvalid, {}),
    (
        "src/./zmq_van.h:126: connect to tcp://10.0.0.3:9000 failed: Connection refused",
        ConnectFailed,
        {"why": Why.REFUSED, "peer": "10.0.0.3:9000"},
    ),
    ("src/./ibverbs_van.h:774: Check failed: pd_ Failed to allocate protection domain", RdmaTrouble, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "[03:56:53] src/van.cc:306: W[11] is connected to others",
        "[05:05:15] src/./zmq_van.h:66: BYTEPS_ZMQ_MAX_SOCKET set to 1024",
        "1 => 9. Meta: request=0, timestamp=3, control={ cmd=ADD_NODE, node={ } }",
    ],
)
def test_the_start_of_a_healthy_node_is_not(text, read):
    assert not read(table, text)
