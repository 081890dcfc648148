# SPDX-License-Identifier: Apache-2.0
"""How managed training services say that replicas ended."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import OomKilled
from keepstep.parse.tools.kubernetes import ml_engine as table

WORDINGS = [
    (
        "The replica worker 3 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        OomKilled,
        {"rank": 3, "process": "worker 3"},
    ),
    (
        "The replica master 0 exited with a non-zero status of 1. Termination reason: Error.",
        ProcessExited,
        {"rank": 0, "code": 1},
    ),
    ("The replica ps 1 exited with a non-zero status of 1.", ProcessExited, {"rank": None, "node": "ps 1"}),
    ("The replica worker 2 exited with a non-zero status of 9(SIGKILL).", ProcessExited, {"signal": "SIGKILL"}),
    ("Command '['python', '-m', 'task']' returned non-zero exit status -9", ProcessExited, {"signal": "SIGKILL"}),
    ("AlgorithmError: , exit code: 137", ProcessExited, {"signal": "SIGKILL"}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize("text", ["The replica worker 3 started", "AlgorithmError: , exit code: 1"])
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
