# SPDX-License-Identifier: Apache-2.0
"""What the tests of the tables share."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from keepstep.model.facts.base import Fact
from tests.parse import reading


def _holds(facts: list[Fact], kind: type[Fact], **fields: object) -> bool:
    """Whether one of the facts is of the kind and has these values."""
    return any(isinstance(f, kind) and all(getattr(f, k) == v for k, v in fields.items()) for f in facts)


@pytest.fixture
def read() -> Callable[[ModuleType, str], list[Fact]]:
    return reading.read


@pytest.fixture
def holds() -> Callable[..., bool]:
    return _holds
