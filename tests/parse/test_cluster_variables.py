# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.parse import cluster_variables
from keepstep.parse import cluster_variables as table
from keepstep.parse.signature import Signature


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = cluster_variables.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("environment variable RANK expected, but not set", RankVariableMissing(name="RANK")),
        ("KeyError: 'SLURM_NTASKS'", RankVariableMissing(name="SLURM_NTASKS")),
        ("train.py: error: unrecognized arguments: --local-rank=0", RankVariableMissing(name="local-rank")),
        ("Override 'local-rank' not found", RankVariableMissing(name="local-rank")),
        (
            "ValueError: Invalid rank 4, rank should be in the interval [0, 3]",
            WorldSizeConflict(what="a rank outside of its world", seen="rank 4", expected="4 ranks", rank=4),
        ),
        ("process group is up: world size 1, torch 2.13", WorldSeen(size=1)),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Namespace(world_size=1, rank=0)",
        "KeyError: 'label'",
        "train.py: error: unrecognized arguments: --lr=3",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


FURTHER = [
    (
        "RuntimeError: Could not find 'RANK' in the torch environment, visit https://www.colossalai.org/",
        RankVariableMissing,
        {"name": "RANK"},
    ),
    (
        "RuntimeError: MASTER_ADDR expected, but not set",
        RankVariableMissing,
        {"name": "MASTER_ADDR"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
