# SPDX-License-Identifier: Apache-2.0
"""Which framework a script trains with."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.memory.framework import framework_of
from keepstep.cluster.launch_line import LaunchLine


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("import torch", "torch"),
        ("import jax.numpy as jnp\nimport tensorflow_datasets as tfds, tensorflow as tf", "jax"),
        ("from torch.utils.data import DataLoader\nfrom flax import nnx", "jax"),
        ("import tensorflow as tf", "tensorflow"),
        ("import keras", "tensorflow"),
        ("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras", "jax"),
        ("import beside", "jax"),
        ("from package.steps import step", "jax"),
        ("this is no program", "torch"),
    ],
)
def test_by_what_it_and_the_files_beside_it_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, framework: str
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    (tmp_path / "beside.py").write_text("import jax")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "steps.py").write_text("import optax")
    (tmp_path / "train.py").write_text(text)
    assert framework_of(LaunchLine(python="python", script=str(tmp_path / "train.py"))) == framework
