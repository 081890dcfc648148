# SPDX-License-Identifier: Apache-2.0
"""Refusals to reshape, and what they were to split."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, ShapeMismatch
from keepstep.core.facts.training import CheckpointMismatch
from keepstep.parse.tools.jax import reshape as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "batch", "parts"),
    [
        ("ValueError: cannot reshape array of size 308 into shape (8,newaxis,77)", "4", "8"),
        (
            "TypeError: cannot reshape array of shape (12, 512) (size 6144) into shape [8, -1, 512] because the size",
            "12",
            "8",
        ),
    ],
)
def test_a_batch_that_the_devices_do_not_divide_is_told_by_its_numbers(text, batch, parts):
    fact = one(text, BatchNotDivisible)
    assert (fact.batch, fact.parts) == (batch, parts)


def test_a_batch_is_told_by_the_line_of_source_above():
    text = "    x.reshape((jax.local_device_count(), 2, 128))\nValueError: cannot reshape array of size 1536 into shape (8,2,128)"
    assert one(text, BatchNotDivisible).parts == "8"


def test_devices_that_do_not_fill_a_mesh_are_a_conflict_of_sizes():
    text = "    mesh = jax.devices().reshape(2, 4)\nValueError: cannot reshape array of size 2 into shape (2,4)"
    assert one(text, WorldSizeConflict).seen == "2"


def test_a_sharding_that_a_checkpoint_brings_is_of_another_machine():
    text = (
        "    np.array(jax.devices()).reshape(shape), axis_names=axis_names\n"
        "ValueError: cannot reshape array of size 2 into shape (1,64)"
    )
    assert "(1,64)" in one(text, CheckpointMismatch).detail


def test_a_notebook_prints_neighbours_between_source_and_message():
    begin = "--> 136           np.array(jax.devices()).reshape(shape), axis_names=axis_names"
    block = next(each for each in table.BLOCKS if each.begin.pattern.search(begin))
    lines = iter(["    137       ),", "", "ValueError: cannot reshape array of size 2 into shape (1,64)"])
    assert {type(fact) for fact in block.read(block.begin.pattern.search(begin), lines)} == {
        CheckpointMismatch,
        WorldSizeConflict,
    }


def test_a_plain_mistake_is_a_shape():
    assert one("ValueError: cannot reshape array of size 10 into shape (3,4)", ShapeMismatch).left == "10"


def test_bytes_that_were_read_are_left_to_the_readers_of_files():
    text = "    a = np.fromfile(f).reshape(3, 4)\nValueError: cannot reshape array of size 10 into shape (3,4)"
    assert facts(text) == []
