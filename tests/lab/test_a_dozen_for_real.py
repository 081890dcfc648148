# SPDX-License-Identifier: Apache-2.0
"""A small real part of the lab: trainings of all three frameworks are started, broken, and explained."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from keepstep_lab.scenario import Scenario
from keepstep_lab.scenarios import SCENARIOS
from keepstep_lab.score import what_is_missing

QUICK = [scenario for scenario in SCENARIOS.values() if scenario.quick]
WITH_GUARD = ("tf_width_mismatch", "jax_ragged_batches")
WITH_RUN = ("tf_segfault", "jax_key_error")


def judged(scenario: Scenario, *more: str) -> dict[str, object]:
    if missing := what_is_missing(scenario):
        pytest.skip(missing)
    command = [sys.executable, "-m", "keepstep", "lab", "run", scenario.name, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.frameworks
@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.name)
def test_a_real_fault_is_explained(scenario: Scenario) -> None:
    outcome = judged(scenario)
    assert outcome["status"] in ("right", "later"), outcome


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "name",
    [
        *WITH_GUARD,
        *(pytest.param(each, marks=pytest.mark.long) for each in ("torch_lock_deadlock", "torch_asleep_then_ended")),
    ],
)
def test_the_guard_tells_it_from_inside(name: str) -> None:
    outcome = judged(SCENARIOS[name], "--with", "guard")
    assert outcome["status"] == "right", outcome


@pytest.mark.frameworks
@pytest.mark.parametrize("name", WITH_RUN)
def test_the_supervisor_tells_it(name: str) -> None:
    outcome = judged(SCENARIOS[name], "--with", "run")
    assert outcome["status"] == "right", outcome
