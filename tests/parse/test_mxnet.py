# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.core.facts.training import CheckpointUnreadable
from keepstep.parse.tools.trainers import mxnet

SEEN: tuple[tuple[str, Fact], ...] = (
    (
        "Check failed: assign(&dattr, vec.at(i)): Incompatible attr in node fc1 at 1-th input: expected [64,10], got [64,12]",
        ShapeMismatch(left="[64,10]", right="[64,12]", op="fc1"),
    ),
    (
        "Check failed: assign: Incompatible attr in node at 0-th input: expected float32, got float16",
        DtypeMismatch(left="float32", right="float16"),
    ),
    (
        "Error in operator conv0: Shape inconsistent, Provided = [64,3,3,3], inferred shape=(64,4,3,3)",
        ShapeMismatch(left="[64,3,3,3]", right="(64,4,3,3)", op="conv0"),
    ),
    (
        "src/ndarray/ndarray.cc:1800: Check failed: magic == kMXAPINDArrayListMagic: Invalid NDArray file format",
        CheckpointUnreadable(why="not a file of parameters"),
    ),
)


@pytest.mark.parametrize(("line", "fact"), SEEN)
def test_a_check_that_failed_is_read(line: str, fact: Fact) -> None:
    assert [f for s in mxnet.SIGNATURES if (f := s.read(line)) is not None] == [fact]


def test_a_records_file_that_is_only_named_says_nothing() -> None:
    line = (
        "[10:00:00] src/io/iter_image_recordio_2.cc:178: ImageRecordIOParser2: train.rec, use 4 threads for decoding.."
    )
    assert not [s for s in mxnet.SIGNATURES if s.read(line)]
