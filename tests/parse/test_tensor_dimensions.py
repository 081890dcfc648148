# SPDX-License-Identifier: Apache-2.0
"""torch's refusals of a tensor for its dimensions, as its modules and kernels word them."""

from __future__ import annotations

import pytest

from keepstep.core.facts.data import ShapeMismatch
from keepstep.parse.tools.torch import tensor_dimensions
from tests.parse.reading import reader

read = reader(tensor_dimensions)

REFUSALS = [
    "ValueError: expected 4D input (got 3D input)",
    "ValueError: expected 2D or 3D input (got 4D input)",
    "ValueError: expected at least 2D input (got 1D input)",
    "RuntimeError: adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [8, 512]",
    "RuntimeError: channel_shuffle expects 4D input, but got input with sizes [1, 2]\nRuntimeError: Expected 4D input tensor, but got: [1, 2]",
    "NotImplementedError: Got 3D input, but bilinear mode needs 4D input",
    "RuntimeError: input must have 3 dimensions, got 2",
    "RuntimeError: For unbatched 2-D input, hx should also be 2-D but got 3-D tensor",
    "AssertionError: LSTM: Expected input to be 2-D or 3-D but received 4-D tensor",
    "ValueError: RNN: Expected input to be 2D or 3D, got 4D instead",
    "RuntimeError: Expected hidden[0] size (2, 4, 8), got [2, 3, 8]",
    "AssertionError: query should be unbatched 2D or batched 3D tensor but received 4-D query tensor",
    "AssertionError: was expecting embedding dimension of 512, but got 256",
    "RuntimeError: The shape of the 2D attn_mask is torch.Size([10, 10]), but should be (20, 20).",
    "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
    "RuntimeError: multi-target not supported at /pytorch/aten/src/THCUNN/generic/ClassNLLCriterion.cu:15",
    "RuntimeError: Calculated padded input size per channel: (1 x 1). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
    "RuntimeError: Given input size: (512x1x1). Calculated output size: (512x0x0). Output size is too small",
    "RuntimeError: grid_sampler(): expected input and grid to have same batch size",
    "RuntimeError: batch1 must be a 3D tensor",
    "RuntimeError: self must be a matrix",
    "RuntimeError: 1D tensors expected, but got 2D and 1D tensors",
    "RuntimeError: Expected index [8, 1] to be smaller than self [8, 0] apart from dimension 1",
    "RuntimeError: number of dims don't match in permute",
    "RuntimeError: unflatten: Provided sizes [4, -1] don't multiply up to the size of dim 1 (10) in the input tensor",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_a_shape_that_does_not_fit(text: str) -> None:
    assert any(isinstance(fact, ShapeMismatch) for fact in read(text))


def test_both_sides_are_kept() -> None:
    (fact,) = read("ValueError: expected 4D input (got 3D input)")
    assert (fact.left, fact.right) == ("3D input", "4D")


OTHERS = [
    "UserWarning: Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1]))",
    "INFO: the loss takes 4D input, the model emits 3D",
    "the config must be a matrix of options",
    "ValueError: expected 4 values, got 3",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_words_are_none(text: str) -> None:
    assert read(text) == []
