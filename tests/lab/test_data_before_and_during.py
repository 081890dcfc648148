# SPDX-License-Identifier: Apache-2.0
"""Faults of the data: `check data` says so before the training, from the files alone, and the guard during it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep_lab.before import TELLS, before
from keepstep_lab.guarded import TELLS as DURING
from keepstep_lab.scenarios import SCENARIOS
from keepstep_lab.score import what_is_missing

SRC = Path(__file__).parents[2] / "src"
QUICKLY = ("tf_flipped_record", "torch_uneven_data", "jax_same_shard")
HEALTHY = ("torch_healthy_ddp", "jax_healthy", "tf_healthy_mwms")
LIVE = ("torch_same_shard", "jax_same_shard", "tf_fit_same_data", "tf_ragged_batches", "torch_ragged_batches")
DRIVE = """
import json, sys
from dataclasses import replace
from keepstep_lab.cli.lab import WATCHED
from keepstep_lab import score
from keepstep_lab.scenarios import SCENARIOS
name, watch, source = sys.argv[1:]
scenario = WATCHED[watch](SCENARIOS[name])
scenario = replace(scenario, env={**scenario.env, "PYTHONPATH": source})
print(json.dumps(score.run_one(scenario, watch=watch)[0].to_dict()))
"""
"""As `keepstep lab run NAME --with WATCH`, with ranks that use the code under test."""


def judged(name: str, watch: str) -> dict[str, object]:
    if missing := what_is_missing(SCENARIOS[name]):
        pytest.skip(missing)
    command = [sys.executable, "-c", DRIVE, name, watch, str(SRC)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "name", [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.long) for name in TELLS]
)
def test_the_files_show_it_before_any_rank_is_started(name: str) -> None:
    pytest.importorskip("numpy")
    outcome = judged(name, "data")
    assert outcome["status"] == "right", outcome


@pytest.mark.parametrize(
    "name", [name if name == "torch_healthy_ddp" else pytest.param(name, marks=pytest.mark.long) for name in HEALTHY]
)
def test_nothing_is_said_about_good_files(name: str) -> None:
    outcome = judged(name, "data")
    assert outcome["status"] == "right" and not outcome["said"], outcome


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "name", [name if name == "jax_same_shard" else pytest.param(name, marks=pytest.mark.long) for name in LIVE]
)
def test_the_guard_says_it_while_the_ranks_train(name: str) -> None:
    outcome = judged(name, "guard")
    assert outcome["status"] == "right", outcome
    assert outcome["said"] == "data.sharding_uneven_or_empty"


def test_every_silent_fault_of_the_data_is_found_before_or_during() -> None:
    """What no log shows must be in one of the two tables."""
    silent = [each for each in SCENARIOS.values() if (each.cause or "").startswith("data.") and each.later == "guard"]
    assert len(silent) >= 9
    assert not [each.name for each in silent if each.name not in DURING]


def test_only_faults_of_files_are_judged_by_files() -> None:
    assert before(SCENARIOS["torch_lock_deadlock"]) is None
    assert before(SCENARIOS["torch_uneven_data"]) is not None
    assert {TELLS[name][0] for name in TELLS} == {"tf-file", "tf-off", "tf-shard-files"}
