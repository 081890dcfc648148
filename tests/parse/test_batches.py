# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, EmptyBatch, ShapeMismatch
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.programs import batches
from keepstep.parse.tools.programs import batches as table


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = batches.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "RuntimeError: a and b must have same reduction dim, but got [16, 32] X [64, 8].",
            ShapeMismatch(left="16, 32", right="64, 8", op="matmul"),
        ),
        (
            "RuntimeError: Attempting to broadcast a dimension of length 3 at -1! Mismatching argument at index 1 had torch.Size([3]);"
            " but expected shape should be broadcastable to [2, 4]",
            ShapeMismatch(left="3", right="2, 4", op="broadcast"),
        ),
        (
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x10 and 20x5)",
            ShapeMismatch(left="32x10", right="20x5", op="matmul"),
        ),
        (
            "RuntimeError: stack expects each tensor to be equal size, but got [3, 2] at entry 0 and [1, 2] at entry 5",
            ShapeMismatch(left="[3, 2]", right="[1, 2]", op="stack"),
        ),
        (
            "Shape of tensor args_0 [32,32] is not compatible with expected shape [48,32].",
            EmptyBatch(what="a tensor of a fixed shape"),
        ),
        (
            "Shape of tensor args_0 [48,24] is not compatible with expected shape [48,32].",
            ShapeMismatch(left="[48,24]", right="[48,32]", op="ensure_shape"),
        ),
        ("Incompatible shapes: [32,10] vs. [32,5]", ShapeMismatch(left="[32,10]", right="[32,5]")),
        (
            "its dimension 0 should be divisible by 4, but it is equal to 19 (full shape: (19, 10))",
            BatchNotDivisible(batch="19", parts="4"),
        ),
        (
            "RuntimeError: expected scalar type Half but found Float",
            DtypeMismatch(left="Half", right="Float"),
        ),
        (
            "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half",
            DtypeMismatch(left="float", right="c10::Half"),
        ),
        (
            "as input #1(zero-based) was expected to be a float tensor but is a double tensor",
            DtypeMismatch(left="float", right="double"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        "size mismatch for fc.weight: copying a param with shape torch.Size([10]) from checkpoint",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


FURTHER = [
    (
        "RuntimeError: Input tensor at index 1 has invalid shape [32, 32], but expected [32, 33]",
        ShapeMismatch,
        {"left": "[32, 32]", "right": "[32, 33]"},
    ),
    ("RuntimeError: gather got an input of invalid size: got 1x1, but expected 3x1", ShapeMismatch, {"left": "1x1"}),
    (
        "pyarrow.lib.ArrowInvalid: Column 1 named labels expected length 1000 but got length 999",
        ShapeMismatch,
        {"left": "1000", "right": "999"},
    ),
    (
        "RuntimeError: each element in list of batch should be of equal size",
        ShapeMismatch,
        {"op": "collation"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
