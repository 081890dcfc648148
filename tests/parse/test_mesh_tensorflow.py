# SPDX-License-Identifier: Apache-2.0
"""Meshes and layouts that do not fit."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.parse.tools.tensorflow import mesh as mesh_tensorflow
from tests.parse.reading import reader

read = reader(mesh_tensorflow)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "ValueError: Argument not a list with same length as devices arg=[0, 1, 2, 3] devices=['gpu:0']",
            WorldSizeConflict,
        ),
        ("ValueError: product of spec must be num_processors spec=[4, 2] num_processors=1", WorldSizeConflict),
        (
            "ValueError: mesh spec multiplies to the wrong sizespec=[] physical_shape=[2, 2, 2] products=[8]",
            WorldSizeConflict,
        ),
        (
            "ValueError: Tensor dimension size not divisible by mesh dimension size: tensor_shape=Shape[batch=6]",
            BatchNotDivisible,
        ),
        ("ValueError: can't split along split axis", UnsupportedCombination),
        ("ValueError: Two Tensor Dimensions may not map to the same Mesh Dimension: layout=x", UnsupportedCombination),
    ],
)
def test_a_mesh_that_does_not_fit_is_read(text: str, kind: type) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


def test_an_ordinary_line_says_nothing() -> None:
    assert read("INFO:tensorflow:SimdMeshImpl init: Shape[x=4, y=2] LayoutRules{('batch', 'x')}") == []
