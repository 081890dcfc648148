# SPDX-License-Identifier: Apache-2.0
"""What torch_xla's processes say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import PeerLost
from keepstep.core.facts.process import ProcessExited
from keepstep.parse import torch_xla as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


def test_the_core_that_raised_is_named():
    assert one("Exception in device=TPU:7: Invalid argument: From /job:tpu_worker", ProcessExited).rank == 7


def test_a_closed_mesh_is_a_lost_peer():
    assert (
        one("mesh_service.cc:243 : Failed to meet rendezvous 'init': Socket closed (14)", PeerLost).how
        == "Socket closed"
    )


@pytest.mark.parametrize("text", ["Process 0 is using TPU:0", "torch_xla version: 1.5"])
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []
