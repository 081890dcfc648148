# SPDX-License-Identifier: Apache-2.0
"""Arrays that several devices of one process hold in full: a changed bit is found, a lawful difference is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("jax_replicas.py")


@pytest.mark.frameworks("jax")
@pytest.mark.slow
def test_a_changed_bit_is_named_with_device_and_array_and_one_that_spread_with_its_steps(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KEEPSTEP", "XLA", "JAX"))}
    env |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off", "KEEPSTEP_FINGERPRINTS": "4"}
    env |= {"KEEPSTEP_BUDDY": "5"}  # there is none: that is said
    command = [sys.executable, str(SCRIPT), "healthy", "drift", "flip", "lost", "pmap_alone", "pmap_flip"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("no buddy steps: jax has none") == 1
    notes = [json.loads(line) for each in tmp_path.glob("*.notes.jsonl") for line in each.read_text().splitlines()]
    found, stacked = [note["fields"] for note in notes if note["fact"] == "ReplicaOdd"]
    assert (stacked["devices"], stacked["majority"]) == (["cpu:2"], True)
    assert "pmap_flip_other" in stacked["tensor"]
    assert (found["devices"], found["majority"]) == (["cpu:1"], True)
    assert "flip_other" in found["tensor"]
    assert any("each device trains by itself" in note["fields"].get("why", "") for note in notes)
    (lost,) = [note["fields"] for note in notes if note["fact"] == "ReplicasNotFinite"]
    assert "lost_" in lost["tensor"] and (lost["tensors"], lost["step"] - lost["finite_at"]) == (2, 4)
    assert "an exchange spread it, so this does not show on which replica it began" in ended.stderr
