# SPDX-License-Identifier: Apache-2.0
"""A small real part of the lab: trainings of all three frameworks are started, broken, and explained."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from keepstep.lab.scenarios import SCENARIOS
from keepstep.lab.score import what_is_missing

QUICK = [scenario for scenario in SCENARIOS.values() if scenario.quick]


@pytest.mark.frameworks
@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.name)
def test_a_real_fault_is_explained(scenario) -> None:
    if missing := what_is_missing(scenario):
        pytest.skip(missing)
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "lab", "run", scenario.name, "--json"], capture_output=True, text=True, timeout=300
    )
    outcome = json.loads(done.stdout)
    assert outcome["status"] in ("right", "later"), outcome
