# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras scripts as people write them, unmodified, traced and not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

Try = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 900

FIT = """
import keras, numpy as np

model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(3000, "relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(np.zeros((4000, 784), "float32"), np.zeros(4000, "int32"), batch_size=1000, epochs=2)
raise SystemExit("it went on after two steps")
"""

LOOP = """
import tensorflow as tf

w = tf.Variable(tf.random.normal((2000, 3000)))
optimizer = tf.keras.optimizers.SGD(0.1)

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(x @ w))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss

for x in tf.data.Dataset.from_tensor_slices(tf.zeros((640, 2000))).batch(64):
    print(float(step(x)))
raise SystemExit("it went on after two steps")
"""


@pytest.fixture
def try_it(tmp_path: Path) -> Try:
    def run(text: str, *options: str, device: str = "h200") -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(text)
        command = [sys.executable, "-m", "keepstep", "check", "memory", "--device", device, *options]
        command += ["--", sys.executable, "train.py"]
        env = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)

    return run


def row(done: subprocess.CompletedProcess[str], name: str) -> str:
    return next(line for line in done.stdout.splitlines() if line.startswith(f"  {name}"))


def test_the_variables_of_a_keras_model_are_arithmetic(try_it: Try) -> None:
    done = try_it(FIT)
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * (784 * 3000 + 3000 + 3000 * 10 + 10)
    assert f"{3 * parameters / 1e6:.1f} MB" in row(done, "variables")
    assert f"{(1000 * 784 * 4 + 1000 * 4) / 1e6:.1f} MB" in row(done, "inputs")
    assert "fits: " in done.stdout and max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.long
def test_on_processors_keras_does_not_compile(try_it: Try) -> None:
    done = try_it(FIT, device="cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the memory of this host has" in done.stdout and "CUDA" not in done.stdout
    forced = try_it(FIT.replace('"adam", ', '"adam", jit_compile=True, loss='), device="cpu")
    assert forced.returncode == 0, forced.stdout + forced.stderr
    said = [each.stdout.partition("fits: ")[2].partition(" of the ")[0] for each in (done, forced)]
    assert all(said) and said[0] != said[1]  # the plan of a graph is less sure


@pytest.mark.long
def test_a_loop_of_ones_own_is_traced_and_a_small_device_does_not_hold_it(try_it: Try) -> None:
    done = try_it(LOOP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{4 * 2000 * 3000 / 1e6:.1f} MB" in row(done, "variables")
    done = try_it(
        LOOP.replace("(640, 2000)", "(40000, 2000)").replace("batch(64)", "batch(20000)"), "--json", device="1GB"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    finding = json.loads(done.stdout)["findings"][0]
    assert finding["rule"] == "RES108" and "replica" in json.dumps(finding["fixes"])


@pytest.mark.long
def test_a_loop_without_a_function_is_no_answer(try_it: Try) -> None:
    done = try_it(LOOP.replace("@tf.function\n", "").replace("raise SystemExit", "SystemExit"), "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no function changed a variable" in json.dumps(json.loads(done.stdout)["coverage"])
