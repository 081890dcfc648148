# SPDX-License-Identifier: Apache-2.0
"""Meshes, groups and sharded tensors."""

from __future__ import annotations

from keepstep.model.facts.data import ShapeMismatch
from keepstep.parse.tools.torch import dtensor
from tests.parse.reading import reader


def test_a_gradient_of_another_shape_than_the_stage_gave_is_told():
    text = (
        "        Failed to run stage backward:\n"
        "        Stage output: ('Tensor(torch.Size([10]), grad=True)',)\n"
        "        Output gradient: ['Tensor(torch.Size([1, 10]), grad=False)']"
    )
    assert reader(dtensor)(text) == [
        ShapeMismatch(left="[10]", right="[1, 10]", op="the backward pass of a pipeline stage")
    ]
    assert reader(dtensor)(text.replace("[10]", "[1, 10]")) == []
