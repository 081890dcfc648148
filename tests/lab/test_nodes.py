# SPDX-License-Identifier: Apache-2.0
"""Faults between machines: two of the scenarios by `make test`, all of them by `make test-all`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from keepstep.model.cause import Cause
from keepstep_lab import hosts
from keepstep_lab.nodes.table import SCENARIOS
from keepstep_lab.nodes.trial import TOLD, NodeScenario, run_one

needs_hosts = pytest.mark.skipif(hosts.missing() is not None, reason=str(hosts.missing()))
ALL = [pytest.param(each, marks=() if each.quick else pytest.mark.long, id=each.name) for each in SCENARIOS.values()]


@needs_hosts
@pytest.mark.parametrize("scenario", ALL)
def test_a_fault_between_machines(scenario: NodeScenario) -> None:
    outcome = run_one(scenario)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.right, "\n".join(outcome.wrong)


def test_a_scenario_names_what_there_is() -> None:
    for scenario in SCENARIOS.values():
        assert scenario.cause is None or scenario.cause in {cause.value for cause in Cause}, scenario.name
        assert scenario.cause is None or (scenario.host and scenario.ranks), scenario.name
        assert all(0 <= rank < scenario.machines * scenario.per_node for rank in scenario.ranks), scenario.name
        assert scenario.note.endswith("."), scenario.name


def test_the_line_in_which_a_leader_reports_a_cause() -> None:
    said = "keepstep: run x\nkeepstep: node-1 went silent [network.unreachable_or_firewall]\nrank 0 | a [b.c] d\n"
    told = TOLD.search(said)
    assert told is not None and told["cause"] == Cause.NETWORK_UNREACHABLE_OR_FIREWALL.value
    assert TOLD.search("rank 0 | keepstep: x [a.b]") is None


def test_they_are_listed_and_an_unknown_one_is_a_usage_error() -> None:
    lab = [sys.executable, "-m", "keepstep", "lab", "nodes"]
    done = subprocess.run([*lab, "list", "--json"], capture_output=True, text=True, check=True)
    assert [each["name"] for each in json.loads(done.stdout)] == list(SCENARIOS)
    done = subprocess.run([*lab, "run", "no_such"], capture_output=True, text=True)
    assert done.returncode == 2 and "keepstep lab nodes list" in done.stderr
