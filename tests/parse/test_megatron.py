# SPDX-License-Identifier: Apache-2.0
"""What Megatron says."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.sync import SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, NonFinite
from keepstep.parse.tools.trainers import megatron as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3, node: n", 3),
        ("RuntimeError: Rank 7, node n1, device 7, iteration -1: Unexpected result nan (message='found NaN", 7),
        ("found NaN in local grad norm in backward pass before data-parallel communication collective", None),
    ],
)
def test_the_rank_with_nan_is_named(text, rank):
    assert one(text, NonFinite).rank == rank


def test_a_world_that_cannot_be_divided_is_read():
    assert (
        one("RuntimeError: world_size (6) is not divisible by tensor_model_parallel_size (4)", WorldSizeConflict).seen
        == "6"
    )


def test_arguments_other_than_the_checkpoints_are_read():
    text = "num_layers value from checkpoint (24) is not equal to the input argument value (32)."
    assert one(text, CheckpointMismatch)


def test_an_iteration_says_nothing():
    assert facts(" iteration      100/     500 | consumed samples: 800 | number of nan iterations:   0 |") == []


FURTHER = [
    (
        "FileNotFoundError: [Errno 2] No such file or directory: '/work/index-cache/43d5_doc_idx.npy'",
        SharedStateRace,
        {"path": "/work/index-cache/43d5_doc_idx.npy"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
