# SPDX-License-Identifier: Apache-2.0
"""A loss of JAX that becomes NaN: the step is run once more, and the operation that began it is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("jax_not_finite.py")


def line_of(words: str) -> str:
    lines = SCRIPT.read_text().splitlines()
    return f"{SCRIPT.name}:{next(number for number, line in enumerate(lines, 1) if words in line)}"


def notes(folder: Path, how: str, **env: str) -> dict[str, list[dict[str, Any]]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEEPSTEP", "XLA", "JAX"))}
    kept |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder), "KEEPSTEP_COMPANION": "off"} | env
    ended = subprocess.run([sys.executable, str(SCRIPT), how], env=kept, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (line for each in folder.glob("*.notes.jsonl") for line in each.read_text().splitlines()):
        note = json.loads(line)
        found.setdefault(note["fact"], []).append(note["fields"])
    assert found["LossNotFinite"], ended.stderr
    return found


@pytest.mark.frameworks("jax")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "op", "layer", "words"),
    [
        ("log", "log", "head", "spread = jnp.log(shifted)"),
        pytest.param("slope", None, None, "jnp.sqrt(", marks=pytest.mark.long),
        pytest.param("loop", "log", "head", "jax.lax.scan(", marks=pytest.mark.long),
        pytest.param("batch", None, None, None, marks=pytest.mark.long),
    ],
)
def test_the_operation_is_named_with_its_line_and_layer(
    tmp_path: Path, how: str, op: str | None, layer: str | None, words: str | None
) -> None:
    (found,) = notes(tmp_path, how)["FirstNonFinite"]
    assert found["step"] == 40 and found["batch"].startswith("float32[5, 6]")
    assert found["line"] == (None if words is None else line_of(words))
    if words is None or op is not None:
        assert (found["op"], found["layer"]) == (op, layer)


@pytest.mark.frameworks("jax")
@pytest.mark.slow
def test_a_step_that_donates_its_arguments_cannot_be_run_once_more_and_that_is_said(tmp_path: Path) -> None:
    found = notes(tmp_path, "donated")
    assert "FirstNonFinite" not in found
    assert any("donates its arguments" in each["why"] for each in found["GuardPart"])
