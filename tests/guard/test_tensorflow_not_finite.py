# SPDX-License-Identifier: Apache-2.0
"""A loss of TensorFlow that becomes NaN: the operation that gives it is named, or why that is not established."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("tf_not_finite.py")


def notes(folder: Path, how: str) -> list[dict[str, Any]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEEPSTEP", "TF_"))}
    kept |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder), "KEEPSTEP_COMPANION": "off", "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run([sys.executable, str(SCRIPT), how], env=kept, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for each in folder.glob("*.notes.jsonl") for line in each.read_text().splitlines()]
    assert any(note["fact"] == "LossNotFinite" for note in found), ended.stderr
    return found


@pytest.mark.frameworks("tensorflow")
@pytest.mark.slow
def test_the_operation_is_named_while_the_variables_are_finite(tmp_path: Path) -> None:
    (found,) = [note["fields"] for note in notes(tmp_path, "log") if note["fact"] == "FirstNonFinite"]
    line = 1 + SCRIPT.read_text().splitlines().index(
        "        return tf.math.log(shifted)  # the first NaN, if that is below 0"
    )
    assert (found["op"], found["layer"], found["line"]) == ("log", "head", f"{SCRIPT.name}:{line}")
    assert found["batch"].startswith("float32[5, 6]") and not found["sure"]


@pytest.mark.frameworks("tensorflow")
@pytest.mark.slow
@pytest.mark.long
def test_where_the_step_has_changed_its_variables_that_is_said(tmp_path: Path) -> None:
    found = notes(tmp_path, "lost")
    assert not any(note["fact"] == "FirstNonFinite" for note in found)
    assert any("changed its variables in place (one is not finite" in note["fields"].get("why", "") for note in found)
