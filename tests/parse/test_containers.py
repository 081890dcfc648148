# SPDX-License-Identifier: Apache-2.0
"""How containers ended."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import OomKilled
from keepstep.parse.tools.kubernetes import containers as table

WORDINGS = [
    (
        "INFO: container failed with non-zero exit code: container failed with non-zero exit code: 132 (exit code 132)",
        ProcessExited,
        {"signal": "SIGILL", "code": None},
    ),
    ("train_worker_1 exited with code 137", ProcessExited, {"signal": "SIGKILL"}),
    ("Container exited with 132", ProcessExited, {"signal": "SIGILL"}),
    ("User process '/opt/miniconda/bin/python' exited with status code 1.", ProcessExited, {"code": 1}),
    ("OutOfMemoryError: Container killed due to memory usage", OomKilled, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "train_worker_1 exited with code 0",
        "Container exited with 0",
        "the shell exited with code 137 before",
        "worker_1 exited with code 143",
    ],
)
def test_an_end_that_was_asked_for_is_none(text, read):
    assert not read(table, text)
