# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import EndOfData, ShapeMismatch
from keepstep.core.facts.training import Phase, PhaseSeen
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.tensorflow import keras


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = keras.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "WARNING:tensorflow:Your input ran out of data; interrupting training.",
            EndOfData(what="ran out of data"),
        ),
        (
            "WARNING:tensorflow:Early stopping conditions are met. Exiting.",
            PhaseSeen(phase=Phase.STOPPING_EARLY),
        ),
        (
            "ValueError: Shapes (None, 10) and (None, 5) are incompatible",
            ShapeMismatch(left="(None, 10)", right="(None, 5)"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1/3",
        "12/100 [==>...] - ETA: 3s - loss: 0.41",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []
