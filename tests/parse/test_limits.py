# SPDX-License-Identifier: Apache-2.0
"""Limits of files, processes and threads."""

from __future__ import annotations

import pytest

from keepstep.core.facts.resource import LimitReached
from keepstep.parse.tools.system import limits as table

WORDINGS = [
    ("OSError: [Errno 24] Too many open files: 'x.txt'", LimitReached, {"limit": "open files"}),
    ("RuntimeError: received 0 items of ancdata", LimitReached, {"limit": "open files"}),
    ("RuntimeError: can't start new thread", LimitReached, {"limit": "threads"}),
    ("libgomp: Thread creation failed: Resource temporarily unavailable", LimitReached, {"limit": "threads"}),
    (
        "OpenBLAS blas_thread_init: pthread_create failed for thread 20 of 64: Resource temporarily unavailable",
        LimitReached,
        {"limit": "threads"},
    ),
    ("bash: fork: Resource temporarily unavailable", LimitReached, {"limit": "processes or threads"}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "OMP_NUM_THREADS set to 1 for each process",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "lmdb.ReadersFullError: mdb_txn_begin: MDB_READERS_FULL: Environment maxreaders limit reached",
        LimitReached,
        {"limit": "readers of an LMDB file"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


def test_a_thread_that_the_runtime_could_not_start_met_a_limit(read):
    assert any(isinstance(fact, LimitReached) for fact in read(table, "  what():  Resource temporarily unavailable"))
