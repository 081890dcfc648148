# SPDX-License-Identifier: Apache-2.0
"""NCCL's warnings over its versions."""

from __future__ import annotations

import pytest

from keepstep.model.facts.network import TransportUsed
from keepstep.parse.tools.nccl.messages import BLOCKS
from tests.parse.table_cases import facts_in


def test_direct_links_are_read_once_a_rank_from_the_lines_after_the_trees():
    text = [f"h:1:2 [0] NCCL INFO Channel {n:02d}/0 : 0[0] -> 1[1] via P2P/IPC" for n in range(8)]
    (block,) = [each for each in BLOCKS if "Trees" in each.begin.expression]
    match = block.begin.pattern.search("h:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1")
    assert list(block.read(match, iter(text))) == [TransportUsed(name="P2P", rank=0, peer_rank=1)]


def test_the_ras_report_names_the_ranks_that_got_less_far():
    (block,) = [each for each in BLOCKS if "different" in each.begin.expression]
    match = block.begin.pattern.search("  Communicator ranks have different AllGather operation counts")
    rows = ["  30 ranks have launched up to operation 641", "  2 ranks have launched up to operation 640"]
    rows += [f"  Rank {n} -- GPU 4 managed by process 323032 on node 10.137.190.124" for n in (12, 13)]
    (fact,) = block.read(match, iter(rows))
    assert fact.missing == (12, 13)


@pytest.mark.parametrize(
    "text",
    [
        "h:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer\nAdditional lines follow",
        "UNAVAILABLE: Socket closed\nAdditional GRPC error information from remote coordination service:",
        "Connection closed by peer\nTraceback (most recent call last):",
    ],
)
def test_the_next_word_is_not_the_name_of_a_peer(text: str) -> None:
    assert {getattr(fact, "peer", None) for fact in facts_in(text)} <= {None}
