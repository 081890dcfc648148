# SPDX-License-Identifier: Apache-2.0
"""What Accelerate says."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import ShapeMismatch
from keepstep.core.facts.sync import CollectiveMismatch, ForkOrThread
from keepstep.parse.tools.trainers import accelerate as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_the_world_is_read():
    assert one("Num processes: 4", WorldSeen).size == 4
    assert one("Process index: 3", WorldSeen).index == 3


def test_shapes_that_differ_between_ranks_are_read():
    text = "Cannot apply desired operation due to shape mismatches. All shapes across devices must be valid."
    assert one(text, CollectiveMismatch)


@pytest.mark.parametrize("text", ["Mixed precision type: no", "Device: cuda:0"])
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


FURTHER = [
    (
        "RuntimeError: CUDA has been initialized before the `notebook_launcher` could create a forked subprocess.",
        ForkOrThread,
        {},
    ),
    (
        "RuntimeError: You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`.",
        ShapeMismatch,
        {},
    ),
    (
        "ValueError: The node_rank must be less than the number of nodes.",
        WorldSizeConflict,
        {},
    ),
    (
        "ValueError: Tried to launch on distributed with multinode, but `MASTER_ADDR` env was not set, ",
        RankVariableMissing,
        {"name": "MASTER_ADDR"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
