# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.network import ConnectFailed, PeerLost, Why
from keepstep.core.facts.platform import MemberRestarted
from keepstep.core.facts.sync import RanksMissing
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.jax import coordination_service


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = coordination_service.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "/job:jax_worker/replica:0/task:3 unexpectedly tried to connect with a different incarnation. It has likely restarted.",
            MemberRestarted(member="/job:jax_worker/replica:0/task:3", rank=3),
        ),
        (
            "ABORTED: 5 unexpectedly tried to connect with a different incarnation. It has likely restarted.",
            MemberRestarted(member="task 5", rank=5),
        ),
        (
            "E0000 00:00:1785034909.101133     120 coordination_service.cc:1208] 5 unexpectedly tried to connect with a "
            "different incarnation. It has likely restarted.",
            MemberRestarted(member="task 5", rank=5),
        ),
        (
            "/job:worker/replica:0/task:1 heartbeat timeout. This indicates that the remote task has failed",
            PeerLost(how="heartbeats stopped", peer="/job:worker/replica:0/task:1", peer_rank=1),
        ),
        (
            "Some timed out task names:\n/job:jax_worker/replica:0/task:2",
            RanksMissing(missing=(2,), what="barrier"),
        ),
        ("Some timed out task names:\n0", RanksMissing(missing=(0,), what="barrier")),
        (
            "RPC: /tensorflow.CoordinationService/RegisterTask",
            ConnectFailed(why=Why.TIMED_OUT, peer="the coordination service"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Coordination agent has successfully connected.",
        "/job:worker/replica:0/task:0 has connected to coordination service. Incarnation: 145",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


def test_all_tasks_that_were_late_at_a_barrier_are_read() -> None:
    first = "Barrier end_of_eval timed out. Timed out task names:"
    late, match = next((b, m) for b in coordination_service.BLOCKS if (m := b.begin.pattern.search(first)))
    names = [f"/job:worker/replica:0/task:{n}" for n in (1, 3, 2)]
    assert list(late.read(match, iter([*names, "Traceback"]))) == [
        RanksMissing(missing=(1, 3, 2), what="barrier end_of_eval")
    ]
