# SPDX-License-Identifier: Apache-2.0
"""Gradients that do not fit their tensor."""

from __future__ import annotations

import pytest

from keepstep.core.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.parse.tools.torch import gradients
from tests.parse.reading import reader

read = reader(gradients)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "RuntimeError: attempting to assign a gradient with dtype 'c10::BFloat16' to a tensor with grad_dtype 'Float'.",
            DtypeMismatch(left="c10::BFloat16", right="Float"),
        ),
        (
            "attempting to assign a gradient with dtype 'c10::Half' to a tensor with dtype 'float'.",
            DtypeMismatch(left="c10::Half", right="float"),
        ),
        (
            "attempting to assign a gradient of size '[2, 3]' to a tensor of size '[4, 3]'. Please ensure",
            ShapeMismatch(left="[2, 3]", right="[4, 3]", op="gradient"),
        ),
        ("RuntimeError: assigned grad has data of a different type", DtypeMismatch()),
        ("RuntimeError: assigned grad has data of a different size", ShapeMismatch(op="gradient")),
        (
            "Function ToCopyBackward0 returned an invalid gradient at index 0 - expected type torch.cuda.HalfTensor but got torch.cuda.FloatTensor",
            DtypeMismatch(left="torch.cuda.FloatTensor", right="torch.cuda.HalfTensor"),
        ),
    ],
)
def test_says(line, fact):
    assert read(line) == [fact]


def test_another_device_is_no_other_type():
    line = "Function MulBackward0 returned an invalid gradient at index 0 - expected type torch.cuda.FloatTensor but got torch.FloatTensor"
    assert read(line) == []
