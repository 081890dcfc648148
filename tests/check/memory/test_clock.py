# SPDX-License-Identifier: Apache-2.0
"""A dry run says where it is, and ends in time."""

from __future__ import annotations

import json
import os
import threading

import pytest

from keepstep.check.memory.dry_run import clock as module
from keepstep.check.memory.dry_run.clock import Clock
from keepstep.check.memory.dry_run.storage_log import StorageLog


def test_it_is_told_where_the_script_is_and_ended_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOLD_EVERY_S", 0.0)
    told, answer = os.pipe()
    over, places = threading.Event(), []

    def end(place: str) -> None:
        places.append(place)
        over.set()

    clock = Clock(answer, StorageLog((os.path.dirname(__file__) + os.sep,)), 600.0)
    clock.end, clock.steps = end, lambda: 1
    clock.start()
    with os.fdopen(told) as news:
        first = json.loads(news.readline())
        clock.left(0.0)
        assert over.wait(60)
    assert first["steps"] == 1 and "test_clock.py:" in first["place"]
    assert "test_clock.py:" in places[0]
