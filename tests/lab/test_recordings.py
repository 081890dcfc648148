# SPDX-License-Identifier: Apache-2.0
"""Every scenario's recording, replayed without a framework: failing runs are explained, healthy ones stay silent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keepstep.model.finding import Fix
from keepstep.story.frameworks import is_for
from keepstep_lab.judge import Status, compare
from keepstep_lab.record import about, replay
from keepstep_lab.scenario import FRAMEWORKS
from keepstep_lab.scenarios import SCENARIOS

FOLDER = Path(__file__).resolve().parents[1] / "recordings"
RECORDED = [scenario for scenario in SCENARIOS.values() if (FOLDER / scenario.name).exists()]


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: scenario.name)
def test_a_recording_is_judged_as_its_run_was_and_advised_for_its_framework(scenario) -> None:
    """No `torch.*` for TensorFlow or JAX: where the log never names its framework, the words of a fix must."""
    report = replay(FOLDER / scenario.name)
    outcome = compare(scenario, report)
    assert outcome.status in (Status.RIGHT, Status.LATER), outcome
    for fix in [fix for finding in report.findings for fix in finding.fixes]:
        meant = is_for(fix)
        assert not meant or scenario.framework in meant or is_for(Fix(do=fix.do)), fix


def test_every_scenario_that_can_run_without_an_accelerator_is_recorded() -> None:
    missing = [s.name for s in SCENARIOS.values() if s not in RECORDED and "cuda" not in s.needs]
    assert missing == []


def test_no_recording_has_lost_its_scenario() -> None:
    assert {path.name for path in FOLDER.iterdir()} <= set(SCENARIOS)


def test_many_have_four_ranks_or_more_with_a_file_each_and_clocks_that_differ() -> None:
    wide = [s for s in RECORDED if s.ranks >= 4 and s.clocks and len(list((FOLDER / s.name).rglob("*.log"))) >= 4]
    assert len(wide) >= 25, [s.name for s in wide]
    assert {s.framework for s in wide} == set(FRAMEWORKS)


def test_a_recording_is_small_and_says_nothing_of_the_machine_it_was_made_on() -> None:
    for scenario in RECORDED:
        folder = FOLDER / scenario.name
        assert about(folder)["scenario"] == scenario.name
        for path in folder.rglob("*.*"):
            text = path.read_text()
            assert len(text) <= 250_000, path
            assert not re.search(r"/work/|/tmp/keepstep|/home/|/root/", text), path
