# SPDX-License-Identifier: Apache-2.0
"""Rounds go from guard to guard; rank 0 finds the rank that keeps the others waiting, and that rank says so, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from keepstep.guard.adapters.tensorflow.pace import TensorFlowPace
from keepstep.guard.adapters.torch.collectives.pace import TorchPace
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.pace import Rounds
from keepstep.guard.session import Session
from keepstep.signals.blackbox import BoxPhase
from tests.guard.test_contracts import guard_of


class Shares:
    """The part of an adapter's state that its pace asks for at the start."""

    def __init__(self, session: Session) -> None:
        self.session = session


def torch_round(late: bool) -> dict[str, Any]:
    return {
        "share": 0.02 if late else 0.9,
        "steps": 40,
        "step_s": 0.1,
        "phase": int(BoxPhase.INPUT),
        "line": "train.py:7",
    }


def tensorflow_round(late: bool) -> dict[str, Any]:
    return {"own": 0.09 if late else 0.01, "step": 0.1, "steps": 25, "phase": int(BoxPhase.INPUT)}


def notes(folder: Path) -> list[Mapping[str, Any]]:
    lines = [json.loads(line) for path in folder.rglob("*.notes.jsonl") for line in path.read_text().splitlines()]
    return [line for line in lines if line["fact"] == "RankLate"]


@pytest.mark.parametrize("slow", [0, 2])
@pytest.mark.parametrize(
    ("pace", "made", "rounds", "words"),
    [
        (TorchPace, torch_round, 2, "they wait 90% of the time, it 2%, most often at train.py:7"),
        (TensorFlowPace, tensorflow_round, 4, "0.090 s of each step on its own, the others 0.010 s"),
    ],
)
def test_the_late_rank_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pace: Any, made: Any, rounds: int, words: str, slow: int
) -> None:
    guards = [guard_of(rank, 3, tmp_path) for rank in range(3)]
    for guard in guards:
        guard.use_exchange(SharedFolder(tmp_path / "exchange"))
        guard.open()
    paces: list[Rounds] = [pace(Shares(guard)) for guard in guards]

    def turn(late: int) -> str:
        for rank in (1, 2, 0, 1, 2):  # those that tell before rank 0 compares, and hear its verdict afterwards
            paces[rank].end_round(made(rank == late), 3)
        return capsys.readouterr().err

    for _ in range(rounds - 1):
        assert not turn(slow), "once or twice may be a pause"
    assert turn(slow).count(f"rank {slow}: keeps the others waiting: {words}") == 1
    assert not turn(slow), "it is said once"
    for guard in guards:
        guard.close()
    (told,) = notes(tmp_path)
    assert (
        told["rank"] == {"index": slow} and told["fields"]["phase"] == "input" and told["fields"]["against"] == "peers"
    )
