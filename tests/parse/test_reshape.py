# SPDX-License-Identifier: Apache-2.0
"""Refusals to reshape, and what they were to split."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.training import CheckpointMismatch
from keepstep.parse.tools.jax import reshape as table


def test_a_notebook_prints_neighbours_between_source_and_message():
    begin = "--> 136           np.array(jax.devices()).reshape(shape), axis_names=axis_names"
    block = next(each for each in table.BLOCKS if each.begin.pattern.search(begin))
    lines = iter(["    137       ),", "", "ValueError: cannot reshape array of size 2 into shape (1,64)"])
    assert {type(fact) for fact in block.read(block.begin.pattern.search(begin), lines)} == {
        CheckpointMismatch,
        WorldSizeConflict,
    }
