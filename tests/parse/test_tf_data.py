# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import (
    CorruptData,
    DtypeMismatch,
    EmptyBatch,
    EndOfData,
    LabelOutOfRange,
    ShapeMismatch,
)
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.tensorflow import data as tf_data


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = tf_data.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("DataLossError: truncated record at 28473", CorruptData(what="truncated record")),
        (
            "InvalidArgumentError: Got 5 frames, but animated gifs can only be decoded by tf.image.decode_gif or tf.image.decode_image",
            CorruptData(what="Got 5 frames, but animated gifs can only be decoded"),
        ),
        (
            "InvalidArgumentError: Incomplete bmp content, requires at least 32 bytes to find the header size",
            CorruptData(what="Incomplete bmp content, requires at least"),
        ),
        (
            "Feature: label (data type: int64) is required but could not be found.",
            CorruptData(what="Feature: label (data type: int64) is required but could not be found"),
        ),
        (
            "Key: image/encoded.  Data types don't match. Expected type: int64",
            DtypeMismatch(left="int64"),
        ),
        ("assertion failed: [Labels must be <= n_classes - 1] [Condition x <= y]", LabelOutOfRange()),
        ("UnimplementedError: Cast string to float is not supported", DtypeMismatch(left="string", right="float")),
        (
            "Can not squeeze dim[1], expected a dimension of 1, got 10",
            ShapeMismatch(op="Can not squeeze dim[1], expected a dimension of 1, got 10"),
        ),
        (
            "Received a label value of 255 which is outside the valid range of [0, 10).",
            LabelOutOfRange(label="255", limit="10"),
        ),
        (
            "slice index 0 of dimension 0 out of bounds.",
            EmptyBatch(what="slice index 0 of dimension 0 out of bounds"),
        ),
        (
            "E ring_alg.cc:279] Aborting RingReduce with Out of range: [_Derived_]End of sequence",
            EndOfData(what="collective aborted"),
        ),
        (
            "W local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
            EndOfData(what="logged"),
        ),
        (
            "tensorflow.python.framework.errors_impl.OutOfRangeError: End of sequence",
            EndOfData(what="exception"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "DataLossError: Unable to open table file m.ckpt: Data loss: not an sstable (bad magic number)",
        "reading 12 records from train.tfrecord",
        "Filling up shuffle buffer (this may take a while): 100 of 1000",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []
