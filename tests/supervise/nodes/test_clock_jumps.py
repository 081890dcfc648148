# SPDX-License-Identifier: Apache-2.0
"""Somebody sets the clock during a run, by an hour: nothing that is measured or decided may change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepstep.model.facts.nodes import NodeLost
from keepstep.supervise.nodes.agent import heartbeat
from keepstep.supervise.nodes.lead.lost_nodes import NAME, NodeLosses
from keepstep.supervise.start import reaper
from keepstep.supervise.watch.restart_cost import ComingBack

HOUR_S = 3600.0
Jump = Callable[[], None]


@pytest.fixture(params=[HOUR_S, -HOUR_S], ids=["ahead", "back"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Sets the wall clock, once."""
    real, by = time.time, request.param
    return lambda: monkeypatch.setattr(time, "time", lambda: real() + by)


def test_a_lease_is_measured_by_a_clock_that_nobody_sets(jump: Jump) -> None:
    before, reapers = heartbeat.now(), reaper.clock()
    jump()
    assert 0.0 <= heartbeat.now() - before < 1.0
    assert 0 <= reaper.clock() - reapers < 1e9


def test_how_long_a_node_was_silent_is_right(jump: Jump, tmp_path: Path) -> None:
    losses = NodeLosses(tmp_path, 0)
    fact = NodeLost(host="b", node=1, ranks=(1,), closed=False, why=None)
    losses.add(fact, 2.0)
    jump()
    losses.is_back(1)
    assert losses.was_lost(1), "it was back a moment ago"
    (line,) = (tmp_path / NAME).read_text().splitlines()
    told = json.loads(line)
    assert "was silent for 2.0 s" in told["quote"]
    assert abs(told["at"] - (time.time() - 2.0)) < 1.0, "on the clock that all evidence has from now on"


def test_what_a_restart_would_cost_is_right(jump: Jump) -> None:
    back = ComingBack(time.monotonic() - 5.0)
    box: Any = SimpleNamespace(who={"wall": time.time() - 3.0}, checkpointed=dict)
    sign: Any = SimpleNamespace(progress=time.monotonic(), steps=1)
    back.see([sign], [box])
    jump()
    sign.progress = time.monotonic() + 7.0
    back.see([sign], [box])
    assert back.start_s(warm=False) == pytest.approx(5.0, abs=0.5)
    assert back.start_s(warm=True) == pytest.approx(3.0, abs=0.5)
    assert back.work_s() == pytest.approx(7.0, abs=0.5)
