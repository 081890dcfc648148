# SPDX-License-Identifier: Apache-2.0
"""Reading a text with one table, as the scanner does: a signature counts only where its anchor is there."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from keepstep.core.facts.base import Fact


def _read(table: ModuleType, text: str) -> list[Fact]:
    """The facts that the table's signatures and blocks find in a text of one writer."""
    found: list[Fact] = []
    for each in getattr(table, "SIGNATURES", ()):
        fact = each.read(text)
        if fact is not None:
            assert any(anchor in text for anchor in each.anchors), (
                f"no anchor of {each.pattern.pattern!r} in {text!r}"
            )
            found.append(fact)
    first, *rest = text.split("\n")
    for one in getattr(table, "BLOCKS", ()):
        match = one.begin.pattern.search(first)
        if match:
            assert any(anchor in first for anchor in one.begin.anchors)
            found.extend(one.read(match, iter(rest)))
    return found


def _holds(facts: list[Fact], kind: type[Fact], **fields: object) -> bool:
    """Whether one of the facts is of the kind and has these values."""
    return any(isinstance(f, kind) and all(getattr(f, k) == v for k, v in fields.items()) for f in facts)


@pytest.fixture
def read() -> Callable[[ModuleType, str], list[Fact]]:
    return _read


@pytest.fixture
def holds() -> Callable[..., bool]:
    return _holds
