# SPDX-License-Identifier: Apache-2.0
"""Only a record of a kill is a kill: advice, questions and denials use the same words."""

from __future__ import annotations

import pytest

from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.tables import tables


def kills(line: str) -> bool:
    return any(isinstance(each.read(line), OomKilled) for each in tables().signatures)


@pytest.mark.parametrize(
    "line",
    [
        "the worker may have been OOM killed; look at dmesg",
        "Workers could have been OOM-killed.",
        "if it was OOM killed, ask for more memory",
        "Check whether the pod was OOM-killed",
        "exit code 137: the process was not OOM killed",
        "was it OOM killed?",
    ],
)
def test_advice_is_no_record(line: str) -> None:
    assert not kills(line)


@pytest.mark.parametrize("line", ["task 3 was oom-killed", "error='Container was OOM killed by the kernel'"])
def test_a_record_is_one(line: str) -> None:
    assert kills(line)
