# SPDX-License-Identifier: Apache-2.0
"""What `why` calls a lack of memory is one for `keepstep.microbatches` too, where an exception says it."""

from __future__ import annotations

import re

import pytest

from keepstep.signals.memory_errors import is_out_of_memory
from tests.parse.table_cases import cases

RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)): +(.+)", re.S)
BEFORE_STEPS = re.compile(
    r"No executable batch size|dispatched on the CPU or the disk|java\.lang|bytes object|PlannerError|KV cache"
    r"|cache blocks|memory utilization|WinError|DLL load|fichier de pagination"
)
"""A planner, a server, Windows' loader: no smaller batch helps."""
SAID = [
    each.text
    for mine in cases().values()
    for each in mine
    if each.fact in ("DeviceMemoryExhausted", "HostAllocationFailed")
    and each.fields.get("fatal", True)
    and not each.fields.get("library")
    and RAISED.match(each.text)
    and not BEFORE_STEPS.search(each.text)
]


def test_there_are_messages_to_compare() -> None:
    assert len(SAID) > 20


@pytest.mark.parametrize("text", SAID, ids=lambda text: text[:60])
def test_messages_that_why_knows_are_a_lack_of_memory(text: str) -> None:
    found = RAISED.match(text)
    assert found is not None
    assert is_out_of_memory(found[1], found[2])


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("builtins.ValueError", "bad shape"),
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError", "Received message larger than max"),
        ("jaxlib._jax.XlaRuntimeError", "RESOURCE_EXHAUSTED: too many requests"),
        ("builtins.OSError", "[Errno 28] No space left on device"),
    ],
)
def test_other_errors_are_not(type_: str, message: str) -> None:
    assert not is_out_of_memory(type_, message)
