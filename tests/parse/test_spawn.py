# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing.spawn."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.sync import ForkOrThread
from keepstep.parse.tools.python import spawn as table

WORDINGS = [
    (
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        ProcessExited,
        {"rank": 1, "signal": "SIGKILL"},
    ),
    ("Exception: process 0 terminated with exit code 255", ProcessExited, {"rank": 0, "code": 255}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "process 0 started",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "An attempt has been made to start a new process before the current process has finished its bootstrapping phase.",
        ForkOrThread,
        {},
    ),
    ("RuntimeError: SimpleQueue objects should only be shared between processes through inheritance", ForkOrThread, {}),
    (
        "RuntimeError: A SemLock created in a fork context is being shared with a process in a spawn context.",
        ForkOrThread,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
