# SPDX-License-Identifier: Apache-2.0
"""Mirrored variables within one process: replicas that assign weights by themselves are found, others are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

SCRIPT = Path(__file__).with_name("tf_replicas.py")


@pytest.mark.frameworks("tensorflow")
@pytest.mark.slow
@pytest.mark.long
def test_weights_that_are_assigned_per_replica_are_named_and_healthy_programs_are_not(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off", "KEEPSTEP_FINGERPRINTS": "4"}
    env |= {"KEEPSTEP_BUDDY": "5"}  # there is none: that is said
    env |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "fit", "loop", "assigned"], env=env, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("no buddy steps: tensorflow has none") == 1
    notes = [json.loads(line) for each in tmp_path.glob("*.notes.jsonl") for line in each.read_text().splitlines()]
    found = [note["fields"] for note in notes if note["fact"] == "ReplicaOdd"]
    assert found and all("assigned" in each["tensor"] for each in found), ended.stderr
    assert found[0]["devices"] == ["CPU:0", "CPU:1", "CPU:2"]
    assert "one of them is wrong" in ended.stderr
    findings = explain_paths([tmp_path]).report.findings
    assert "NUM204" in {each.rule for each in findings}
