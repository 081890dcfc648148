# SPDX-License-Identifier: Apache-2.0
"""What all tests of the guard share."""

from __future__ import annotations

import pytest

from keepstep.guard.record import checkpoint_ledger


@pytest.fixture(autouse=True)
def records_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends waits five seconds for the last record; a test on a busy machine waits until it is there."""
    monkeypatch.setattr(checkpoint_ledger, "AT_END_S", 60.0)
