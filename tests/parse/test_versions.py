# SPDX-License-Identifier: Apache-2.0
"""Versions that components print."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import VersionConflict, VersionSeen
from keepstep.parse.tools.python import versions as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "component", "version"),
    [
        ("NCCL version 2.19.3+cuda12.1", "NCCL", "2.19.3+cuda12.1"),
        ("PyTorch version: 2.1.0", "torch", "2.1.0"),
        ("TensorFlow version: 2.4.1", "TensorFlow", "2.4.1"),
        ("warmup version 1.4.2", "warmup", "1.4.2"),
        ("jaxlib: 0.4.23", "jaxlib", "0.4.23"),
    ],
)
def test_a_version_is_read(text, component, version):
    fact = one(text, VersionSeen)
    assert (fact.component, fact.version) == (component, version)


def test_other_numbers_are_no_versions():
    assert facts("step 10 loss 2.3") == []


@pytest.mark.parametrize(
    "text",
    [
        "NodeDef expected inputs 'string' do not match 0 inputs specified; Op<name=_Send; signature=tensor:T -> ;",
        "(Check whether your GraphDef-interpreting binary is up to date with your GraphDef-generating binary.).",
        "Mismatched PJRT plugin PJRT API version (0.23) and framework PJRT API version 0.40).",
    ],
)
def test_two_that_do_not_agree_are_read(text):
    assert one(text, VersionConflict).component
