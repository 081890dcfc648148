# SPDX-License-Identifier: Apache-2.0
"""Programs of one process that do odd things print the same, and end the same, with the guard as without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TENSORFLOW = (pytest.mark.frameworks("tensorflow"), pytest.mark.long)


@pytest.mark.parametrize(
    ("program", "environment"),
    [
        pytest.param(
            "odd_jax.py",
            {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"},
            marks=pytest.mark.frameworks("jax"),
            id="jax",
        ),
        pytest.param("odd_tensorflow.py", {"TF_USE_LEGACY_KERAS": "1"}, marks=TENSORFLOW, id="tf_keras"),
        pytest.param("odd_tensorflow.py", {}, marks=TENSORFLOW, id="keras 3"),
    ],
)
def test_a_program_prints_and_ends_as_without_the_guard(
    tmp_path: Path, program: str, environment: dict[str, str]
) -> None:
    running = {
        mode: subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(program))],
            env={**os.environ, **environment, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(tmp_path / mode)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for mode in ("off", "on")
    }
    said = {mode: each.communicate() for mode, each in running.items()}
    assert said["on"][0] == said["off"][0]
    assert [each.returncode for each in running.values()] == [3, 3], said["off"][1]
    assert "the training is not affected" not in said["on"][1], "a part of the guard failed"
    assert not (tmp_path / "off").exists() and (tmp_path / "on").exists()
