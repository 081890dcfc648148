# SPDX-License-Identifier: Apache-2.0
"""`fit` of Keras 3 and tf_keras with the guard, its callback, and the example of the documentation, for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.signals.blackbox import BoxPhase, RecordKind, read
from tests.guard.tf_workers import Ran, job
from tests.lazy_framework import need_framework

pytestmark = pytest.mark.frameworks
EXAMPLE = Path(__file__).parents[2] / "examples" / "guard_tensorflow.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fit")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Callable[[str], Ran]:
    legacy = {"TF_USE_LEGACY_KERAS": "1"}
    jobs: dict[str, Callable[[], Ran]] = {
        "keras": job(folder / "keras", "tf_fit.py", ranks=0),
        "plain keras": job(folder / "plain", "tf_fit.py", ranks=0, env={"KEEPSTEP": "off"}),
        "callback": job(folder / "callback", "tf_fit.py", "--callback", "--eager", ranks=0, env={"KEEPSTEP": ""}),
    }
    need_framework("tf_keras")
    jobs["workers"] = job(folder / "workers", "tf_fit.py", env=legacy)
    return lambda name: jobs[name]()


def _records(folder: Path, name: str, kind: RecordKind) -> list[int]:
    (box,) = (folder / name / "guard").glob("*.box")
    return [record.value for record in read(box.read_bytes()).records if record.kind == kind]


def test_keras_fit_is_recorded_by_step_epoch_and_phase_and_its_results_are_the_same(
    runs: Callable[[str], Ran], folder: Path
) -> None:
    on, off = runs("keras"), runs("plain keras")
    assert on.codes == off.codes == [0]
    assert on.digests == off.digests != []
    assert on.spoken == [] and on.remarkable == []
    assert _records(folder, "keras", RecordKind.STEP) == list(range(1, 13))
    assert _records(folder, "keras", RecordKind.EPOCH) == [1, 2, 3]
    phases = _records(folder, "keras", RecordKind.PHASE)
    assert phases.count(BoxPhase.EVALUATION) >= 3
    assert {BoxPhase.COMPILE, BoxPhase.COMPUTE, BoxPhase.CHECKPOINT, BoxPhase.END} <= set(phases)


@pytest.mark.long
def test_the_callback_tells_each_step_once(runs: Callable[[str], Ran], folder: Path) -> None:
    assert runs("callback").codes == [0]
    assert _records(folder, "callback", RecordKind.STEP) == list(range(1, 13))


def test_fit_of_two_workers_states_optimizer_and_programs_and_is_silent(runs: Callable[[str], Ran]) -> None:
    ran = runs("workers")
    assert ran.codes == [0, 0]
    assert len(set(ran.digests)) == 1
    assert ran.spoken == [] and ran.remarkable == []
    stated = [dict(fact.stated) for fact in ran.facts("ContractStated")]
    assert any(each.get("optimizer") == "SGD" for each in stated)
    assert any("named train_function" in each.get("next", "") for each in stated)
    assert any("named test_function" in each.get("next", "") for each in stated)


@pytest.mark.long
def test_the_example_stops_both_workers_before_they_hang(tmp_path: Path) -> None:
    env = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert (
        "variable 1 float32[8,32] named first on rank 0 but variable 1 float32[8,48] named first on rank 1"
        in done.stderr
    )


FAILS = """
import traceback
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(3)])
model.compile("sgd", "mse")
history = model.fit(np.ones((8, 8)), np.ones((8, 3)), epochs=2, verbose=0)  # no strategy at all
print(history.history["loss"])
try:
    model.fit(np.zeros((4, 8)), np.zeros((4, 5)), verbose=0)
except Exception as error:
    print(traceback.extract_tb(error.__traceback__)[-1].name)
"""


@pytest.mark.parametrize("legacy", [pytest.param("", marks=pytest.mark.long), "1"], ids=["keras 3", "tf_keras"])
def test_a_model_without_a_strategy_trains_and_fails_as_without_the_guard(tmp_path: Path, legacy: str) -> None:
    """Its losses are the same, and so is the frame that raised: the last one of a filtered traceback."""
    said = {}
    for mode in ("on", "off"):
        env = {
            **os.environ,
            "KEEPSTEP": mode,
            "KEEPSTEP_DIR": str(tmp_path),
            "TF_USE_LEGACY_KERAS": legacy,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        said[mode] = subprocess.run(
            [sys.executable, "-c", FAILS], env=env, capture_output=True, text=True, check=True
        ).stdout
    assert said["on"] == said["off"] and said["on"].startswith("[")
