# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import ShapeMismatch
from keepstep.parse.tools.tensorflow import shapes as tf_shapes


def read(line: str) -> list[Fact]:
    return [fact for each in tf_shapes.SIGNATURES if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "InvalidArgumentError: Shape mismatch in tuple component 0. Expected [400], got [3200]",
            ShapeMismatch(left="[400]", right="[3200]", op="elements of a queue"),
        ),
        (
            "Expected dimension 92 at axis 0 of the input shaped [100,64] but got dimension 100",
            ShapeMismatch(left="92", right="100", op="einsum"),
        ),
        (
            "Shapes of all inputs must match: values[0].shape = [2] != values[1].shape = [3] [Op:Pack]",
            ShapeMismatch(left="[2]", right="[3]", op="stack"),
        ),
        ("input and filter must have the same depth: 3 vs 1", ShapeMismatch(left="3", right="1", op="convolution")),
        (
            "In[0] mismatch In[1] shape: 64 vs. 32: [8,4,64] [8,32,4] 0 0",
            ShapeMismatch(left="64", right="32", op="matmul"),
        ),
        (
            "Negative dimension size caused by subtracting 3 from 2 for 'conv2d/Conv2D'",
            ShapeMismatch(left="2", right="3", op="conv2d/Conv2D"),
        ),
        ("TensorArray has inconsistent shapes.  Index 0 has shape: [3]", ShapeMismatch(op="a tensor array")),
    ],
)
def test_refusals_of_kernels_are_read(line: str, expected: Fact) -> None:
    assert expected in read(line)


def test_an_invalid_argument_that_speaks_of_shapes_is_supposed_to_be_a_mismatch() -> None:
    (fact,) = read(
        "tensorflow.errors_impl.InvalidArgumentError: Arguments must have the same rank, got 2 vs. 3; should match"
    )
    assert isinstance(fact, ShapeMismatch)
    assert fact.supposed


@pytest.mark.parametrize(
    "line",
    [
        "(DEBUG INFO) Executor start aborting (this does not indicate an error): (0) INVALID_ARGUMENT: You must feed a value"
        " for placeholder tensor 'Placeholder/_0' with dtype float and shape [128]",
        "InvalidArgumentError: No OpKernel was registered to support Op 'NcclAllReduce'",
        "Epoch 3: the expected shape of the loss curve",
        "InvalidArgumentError: assertion failed: [predictions must be >= 0]",
    ],
)
def test_other_refusals_are_not(line: str) -> None:
    assert read(line) == []
