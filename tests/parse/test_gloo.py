# SPDX-License-Identifier: Apache-2.0
"""gloo's errors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import AddressIsLocal
from keepstep.core.facts.environment import InternalFault
from keepstep.core.facts.network import ConnectFailed, InterfaceMissing, PeerLost, Why
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout
from keepstep.parse.tools.network import gloo
from tests.parse.reading import reader

read = reader(gloo)


SAID = [
    (
        "  what():  [enforce fail at /tmp/torch/lib/gloo/gloo/cuda.cu:249] error == cudaSuccess. 29 vs 0",
        InternalFault(what="error == cudaSuccess. 29 vs 0"),
    ),
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:10895",
        PeerLost(how="connection closed by peer", peer="127.0.0.1"),
    ),
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [192.168.70.92]:25266: Connection reset by peer",
        PeerLost(how="connection reset by peer", peer="192.168.70.92"),
    ),
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        CollectiveTimeout(op="recv", timeout_ms=1800000),
    ),
    (
        "UNKNOWN: Gloo ReduceScatter failed: [external/gloo/gloo/transport/tcp/buffer.cc:72] Read timeout [::1]:38624",
        CollectiveTimeout(op="recv"),
    ),
    (
        "[../third_party/gloo/gloo/transport/tcp/buffer.cc:89] Write timeout [10.0.0.2]:4711",
        CollectiveTimeout(op="send"),
    ),
    (
        "RuntimeError: Application timeout caused pair closure",
        PeerLost(how="closed after a time-out of its own", final=False),
    ),
    (
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] timed out connecting: "
        "SO_ERROR: Connection refused, remote=[127.0.1.1]:41011",
        ConnectFailed(why=Why.REFUSED, peer="[127.0.1.1]:41011", given_out=True),
    ),
    (
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:510] op.preamble.length <= op.nbytes. 400 vs 40",
        CollectiveMismatch(what="size of a message", left="400", right="40"),
    ),
    (
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: ib0",
        InterfaceMissing(name="ib0"),
    ),
    (
        "[W ProcessGroupGloo.cpp:559] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.",
        AddressIsLocal(certain=False),
    ),
]

HARMLESS = [
    "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1",
    "Read error rate 0.00",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []
