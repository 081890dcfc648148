# SPDX-License-Identifier: Apache-2.0
"""Deaths of loader workers."""

from __future__ import annotations

import pytest

from keepstep.core.facts.resource import LoaderWorkerDied
from keepstep.core.facts.training import Slowness
from keepstep.parse.tools.torch import dataloader as table

WORDINGS = [
    (
        "RuntimeError: DataLoader worker (pid 5890) is killed by signal: Killed. ",
        LoaderWorkerDied,
        {"pid": 5890, "signal": "Killed"},
    ),
    (
        "RuntimeError: DataLoader worker (pid 27) is killed by signal: Bus error. It is possible that dataloader's workers are out",
        LoaderWorkerDied,
        {"signal": "Bus error"},
    ),
    (
        "RuntimeError: DataLoader worker (pid(s) 1288, 1290) exited unexpectedly",
        LoaderWorkerDied,
        {"pid": 1288, "signal": None},
    ),
    (
        "0/75 [00:00<?, ?ep/sERROR: Unexpected segmentation fault encountered in worker.",
        LoaderWorkerDied,
        {"signal": "segmentation fault"},
    ),
    (
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
        LoaderWorkerDied,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader will create 8 worker processes in total.",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        '  File "/usr/lib/python3.6/multiprocessing/resource_sharer.py", line 87, in get_connection',
        LoaderWorkerDied,
        {},
    ),
    ('  File "/usr/lib/python3.6/multiprocessing/resource_sharer.py", line 57, in detach', LoaderWorkerDied, {}),
    (
        "RuntimeError: One or more background workers are no longer alive. Exiting.",
        LoaderWorkerDied,
        {},
    ),
    (
        "RuntimeError: Some background workers are no longer alive",
        LoaderWorkerDied,
        {},
    ),
    (
        "SystemError: (Fatal) DataLoader process (pid 1104) exited is killed by signal: Killed. (at /paddle/data_loader.cc:181)",
        LoaderWorkerDied,
        {"pid": 1104, "signal": "Killed"},
    ),
    (
        "RuntimeError: Pin memory thread exited unexpectedly",
        LoaderWorkerDied,
        {},
    ),
    (
        "RuntimeError: DataLoader timed out after 300 seconds",
        Slowness,
        {"what": "loader", "detail": "300 seconds"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
