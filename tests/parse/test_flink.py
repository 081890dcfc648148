# SPDX-License-Identifier: Apache-2.0
"""Nodes of deep learning on Flink."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import MemberRestarted
from keepstep.core.facts.process import ProcessExited
from keepstep.parse.tools.spark import flink
from tests.parse.reading import reader

read = reader(flink)


def test_a_node_with_the_heartbeat_of_an_older_start_was_restarted() -> None:
    (fact,) = read(
        "- worker:33 heartbeat wrong version 1648597416162, terminating heartbeat thread and restart tf node"
    )
    assert isinstance(fact, MemberRestarted)
    assert (fact.member, fact.rank) == ("worker:33", 33)


def test_a_process_that_was_killed_is_told_with_its_rank() -> None:
    (fact,) = read("com.alibaba.flink.ml.util.MLException: worker:0 python process exited with code 137")
    assert isinstance(fact, ProcessExited)
    assert (fact.rank, fact.signal, fact.code) == (0, "SIGKILL", None)


@pytest.mark.parametrize(
    "text", ["worker:0 python process exited with code 0", "worker:0 heartbeat response code 0", "ps:0 receive restart"]
)
def test_an_ordinary_line_says_nothing(text: str) -> None:
    assert read(text) == []
