# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.rpc: what its agents and its limits say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import ConnectFailed, RendezvousTimeout, Why
from keepstep.core.facts.resource import LimitReached
from keepstep.parse.tools.torch import rpc as torch_rpc
from tests.parse.reading import reader

read = reader(torch_rpc)


SAID = [
    ("RuntimeError: ECONNREFUSED: connection refused", ConnectFailed(why=Why.REFUSED)),
    (
        "RuntimeError: RPC ran for more than set timeout (60000 ms) and will now be marked with an error",
        RendezvousTimeout(where="remote call"),
    ),
    ("RPCErr:1:RPC ran for more than 60000 milliseconds and timed out.", RendezvousTimeout(where="remote call")),
    (
        "[W tensorpipe_agent.cpp:641] RPC agent for a encountered error when sending outgoing request #0 to b: ECONNREFUSED: connection refused",
        ConnectFailed(why=Why.REFUSED, peer="b", final=False),
    ),
    (
        "RuntimeError: connect: Resource temporarily unavailable (this error originated at tensorpipe/common/socket.cc:114)",
        LimitReached(limit="connections that wait to be accepted"),
    ),
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


def test_what_a_healthy_end_prints_gives_nothing():
    text = (
        "[W tensorpipe_agent.cpp:726] RPC agent for w1 encountered error when reading incoming request from m: "
        "EOF: end of file (this is expected to happen during shutdown)"
    )
    assert read(text) == []
