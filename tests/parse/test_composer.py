# SPDX-License-Identifier: Apache-2.0
"""The launcher of Composer."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ProcessExited
from keepstep.parse.tools.trainers import composer as table

WORDINGS = [
    (
        "ERROR:composer.cli.launcher:Rank 3 crashed with exit code -9.",
        ProcessExited,
        {"rank": 3, "code": -9, "first": True},
    ),
    (
        "Global rank 0 (PID 4321) exited with code 1",
        ProcessExited,
        {"rank": 0, "code": 1},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "Global rank 0 (PID 4321) exited with code 0",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
