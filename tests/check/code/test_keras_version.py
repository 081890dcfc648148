# SPDX-License-Identifier: Apache-2.0
"""COD222 speaks only where something proves Keras 3: what a project asks for, in every form it can be written in."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.code.check_code import CodeRequest, check_code

PROGRAM = """import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(dataset)
"""


def is_found(folder: Path, files: dict[str, str], asked: str = ".") -> bool:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    report = check_code(CodeRequest(paths=(folder / asked,), select=("COD222",))).report
    assert not report.crashed
    return bool(report.findings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "numpy\ntensorflow>=2.16\n"),
        ("requirements-gpu.txt", "tensorflow[and-cuda]==2.17.*  # the cluster's\n"),
        ("requirements.txt", "keras~=3.1\ntensorflow\n"),
        ("requirements.txt", "tensorflow_cpu>2.16,<3; python_version > '3.9'\n"),
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "tensorflow>=2.18"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntensorflow = "^2.16"\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntensorflow = { version = "~2.17", optional = true }\n'),
        ("setup.cfg", "[options]\ninstall_requires =\n    tensorflow == 2.16.1\n"),
        ("environment.yml", "dependencies:\n  - python=3.11\n  - pip:\n    - tensorflow==2.19.0\n"),
        ("environment.yaml", "dependencies:\n  - tensorflow=2.17\n"),
    ],
)
def test_a_project_that_asks_for_keras_3_is_told(name: str, text: str, tmp_path: Path) -> None:
    assert is_found(tmp_path, {name: text, "src/train.py": PROGRAM})
    assert is_found(tmp_path, {}, "src/train.py")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "tensorflow>=2.12,<2.16\n"),
        ("requirements.txt", "tensorflow<=2.15\n"),
        ("requirements.txt", "tensorflow~=2.15.0\n"),
        ("requirements.txt", "tensorflow==2.15.*\n"),
        ("requirements.txt", "keras<3\ntensorflow>=2.16\n"),
        ("requirements.txt", "tensorflow>=2.16\ntf-keras\n"),
        ("requirements.txt", "tensorflow>=2.4\n"),
        ("requirements.txt", "tensorflow~=2.15\n"),
        ("requirements.txt", "tensorflow\nkeras\n"),
        ("requirements.txt", "tensorflow-datasets>=4.9\nkeras-tuner>=3\ntensorflow_probability==3.0\n"),
        ("requirements.txt", "# tensorflow>=2.16 some day\n"),
        ("environment.yml", "dependencies:\n  - tensorflow=2.15\n"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntensorflow = "^2.15"\n'),
        ("notes.txt", "tensorflow>=2.16\n"),
    ],
)
def test_a_project_that_may_run_with_keras_2_is_left_alone(name: str, text: str, tmp_path: Path) -> None:
    assert not is_found(tmp_path, {name: text, "src/train.py": PROGRAM})


def test_the_nearest_folder_decides(tmp_path: Path) -> None:
    files = {"requirements.txt": "tensorflow>=2.16\n", "old/requirements.txt": "tensorflow<2.16\n"}
    assert not is_found(tmp_path, {**files, "old/train.py": PROGRAM})
    assert is_found(tmp_path, {"new/train.py": PROGRAM})


def test_a_list_above_the_repository_is_not_read(tmp_path: Path) -> None:
    files = {"requirements.txt": "tensorflow>=2.16\n", "here/.git": "gitdir: elsewhere\n", "here/train.py": PROGRAM}
    assert not is_found(tmp_path, files, "here/train.py")
    assert not is_found(tmp_path, {}, "here")


def test_a_script_that_brings_keras_2_back_is_believed(tmp_path: Path) -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2\nexport TF_USE_LEGACY_KERAS=1\nsrun python train.py\n"
    assert not is_found(
        tmp_path, {"requirements.txt": "tensorflow>=2.16\n", "train.py": PROGRAM, "train.sbatch": script}
    )


def test_what_only_keras_3_has_is_a_proof(tmp_path: Path) -> None:
    assert is_found(tmp_path, {"train.py": "from keras import ops\n" + PROGRAM})
    assert not is_found(tmp_path, {"train.py": "from keras import layers\n" + PROGRAM})
