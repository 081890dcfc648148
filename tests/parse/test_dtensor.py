# SPDX-License-Identifier: Apache-2.0
"""Meshes, groups and sharded tensors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.parse.tools.torch import dtensor
from tests.parse.reading import reader


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
            "RuntimeError: the new group's rank should be within the the world_size set by init_process_group".replace(
                "the the", "the"
            ),
            WorldSizeConflict,
            {},
        ),
        (
            "RuntimeError: Sharding propagation failed for Op(op=aten.view.default, args_schema=Spec((Replicate(), Shard(dim=0)) on (8, 4)), [64, 4] @ mesh: (1, 2))",
            UnsupportedCombination,
            {"what": "Sharding propagation failed for Op(op=aten.view.default"},
        ),
        (
            "RuntimeError: Sharding propagation failed on op aten.mm.default(Spec(f32[4](R)))!",
            UnsupportedCombination,
            {},
        ),
        (
            "RuntimeError: ('Attempted to flatten sharded dimension 1, ', 'but only the leftmost dim of a Flatten can be sharded.')",
            UnsupportedCombination,
            {"what": "Attempted to flatten sharded dimension"},
        ),
        (
            "RuntimeError: Attempted to flatten multiple dimensions, with dimension 1 being sharded. It cannot be performed without redistribution",
            UnsupportedCombination,
            {},
        ),
        (
            "RuntimeError: Cannot unflatten unevenly sharded tensor: output dimension 0 (size 12) is not evenly divisible by mesh dimension 0 (size 8).",
            UnsupportedCombination,
            {},
        ),
        (
            "ValueError: All operands in aten.cat.default must have the same mesh, but got DeviceMesh((dp=2)) and DeviceMesh((tp=4)).",
            UnsupportedCombination,
            {},
        ),
        (
            "RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling",
            UnsupportedCombination,
            {"what": "aten.mul.Tensor: got mixed torch.Tensor and DTensor"},
        ),
        (
            "NotImplementedError: Operator aten.unfold.default does not have a sharding strategy registered.",
            UnsupportedCombination,
            {},
        ),
        (
            "torch.distributed.pipelining._utils.PipeliningShapeError: Stage 0 forward inputs[0] has a shape mismatch: expected torch.Size([4, 8])"
            " actual torch.Size([2, 8])",
            ShapeMismatch,
            {"left": "torch.Size([4, 8])", "right": "torch.Size([2, 8])"},
        ),
        (
            "PipeliningShapeError: Stage 1: Number of values (2) does not match expected number (1)",
            ShapeMismatch,
            {"left": "2", "right": "1"},
        ),
        (
            "PipeliningMetadataError: stage 1 outputs[0]: dtype mismatch: torch.float32 vs torch.bfloat16",
            DtypeMismatch,
            {"left": "torch.float32"},
        ),
    ],
)
def test_the_words_give_the_fact(text, kind, fields, read, holds):
    assert holds(read(dtensor, text), kind, **fields)


def test_an_ordinary_line_gives_nothing(read):
    assert read(dtensor, "Building 1-D device mesh with ['dp_shard'], [8]") == []


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
