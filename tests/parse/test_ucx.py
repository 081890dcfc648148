# SPDX-License-Identifier: Apache-2.0
"""UCX's crash report."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import FatalSignal
from keepstep.parse import ucx as table

WORDINGS = [
    (
        "[host:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)\n==== backtrace (tid:   3095) ====\n 5 0x00000000000489b1 ???()  /usr/lib/libnccl.so.2:0\n=====",
        FatalSignal,
        {"signal": "SIGBUS", "pid": 3039, "library": "libnccl.so.2"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Caught signal SIGHUP on host: this job is preempted.",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
