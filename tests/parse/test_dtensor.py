# SPDX-License-Identifier: Apache-2.0
"""Meshes, groups and sharded tensors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.parse import dtensor


@pytest.mark.parametrize(
    "text, kind, fields",
    [
        (
            "RuntimeError: Mesh should not be bigger than default world size 4, but found 8 ranks!",
            WorldSizeConflict,
            {"expected": "4", "seen": "8"},
        ),
        (
            "RuntimeError: the new group's world size should be less or equal to the world size set by init_process_group",
            WorldSizeConflict,
            {"what": "process group and world"},
        ),
        (
            "RuntimeError: the new group's rank should be within the the world_size set by init_process_group".replace("the the", "the"),
            WorldSizeConflict,
            {},
        ),
        (
            "NotImplementedError: Operator aten.unfold.default does not have a sharding strategy registered.",
            UnsupportedCombination,
            {},
        ),
    ],
)
def test_the_words_give_the_fact(text, kind, fields, read, holds):
    assert holds(read(dtensor, text), kind, **fields)


def test_an_ordinary_line_gives_nothing(read):
    assert read(dtensor, "Building 1-D device mesh with ['dp_shard'], [8]") == []
