# SPDX-License-Identifier: Apache-2.0
"""The C runtime's last words."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import NativeAbort
from keepstep.parse.tools.system import glibc as table

WORDINGS = [
    ("free(): invalid pointer", NativeAbort, {"what": "free(): invalid pointer"}),
    ("malloc(): memory corruption", NativeAbort, {}),
    ("corrupted size vs. prev_size", NativeAbort, {}),
    ("*** stack smashing detected ***: terminated", NativeAbort, {"what": "stack smashing detected"}),
    (
        "python: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
        NativeAbort,
        {"where": "malloc.c:2379"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "free(): done, malloc(): called 12 times",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
