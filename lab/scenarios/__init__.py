"""Every recording, by framework; `SCENARIOS` finds them by name."""

from __future__ import annotations

from lab.scenario import Scenario
from lab.scenarios import jax, tensorflow, torch

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in (torch, tensorflow, jax) for scenario in module.SCENARIOS
}
