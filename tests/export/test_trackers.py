# SPDX-License-Identifier: Apache-2.0
"""A run for W&B and MLflow: what is sent, and, where the packages are, that they keep it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keepstep.errors import Unavailable
from keepstep.export.trackers import about, rows, send
from keepstep.store import run_folders
from keepstep.store.history.writer import HistoryWriter

AT = 1_794_990_000.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = run_folders.create(tmp_path, ["train.py", "--token=ghp_" + "a1B2" * 9], name="t", ranks=2, version="made")
    made.manifest.attempts = [run_folders.AttemptSaid(number=0, began=AT)]
    made.save()
    writer = HistoryWriter(made.attempt(0), "node 1")
    for second in range(1, 31):
        writer.add(AT + second, {0: {"step_s": 1.0}, 1: {"step_s": 3.0}}, {"node 1": {"host_cpu": 0.5}})
    writer.close()
    return made.path


def test_names_say_what_was_read_of_whom_and_in_which_unit(run: Path) -> None:
    found = list(rows(run))
    assert [each.step for each in found] == list(range(30))
    assert found[7].values == {
        "ranks-lowest/rank_step_seconds": 1.0,
        "ranks-median/rank_step_seconds": 2.0,
        "ranks-highest/rank_step_seconds": 3.0,
        "node-1/host_cpu_ratio": 0.5,
    }
    assert "ghp_" not in str(about(run)) and about(run)["keepstep.ranks"] == "2"


@pytest.mark.parametrize("tool", ["wandb", "mlflow"])
def test_a_package_that_is_missing_is_named(run: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, tool, None)  # as if it were not installed
    with pytest.raises(Unavailable, match=tool) as raised:
        send(run, tool, "p")
    assert raised.value.hint == f"pip install {tool}"


def test_mlflow_keeps_it(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    number = send(run, "mlflow", "p").rpartition(" ")[2]
    kept = mlflow.MlflowClient().get_metric_history(number, "ranks-highest/rank_step_seconds")
    assert [(each.step, each.value) for each in kept] == [(step, 3.0) for step in range(30)]


def test_what_the_package_refuses_is_said_in_its_words(run: Path, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri("nowhere://x")
    with pytest.raises(Unavailable, match=r"mlflow says: .*nowhere"):
        send(run, "mlflow", "p")


def test_wandb_keeps_it_without_a_network(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    folder = Path(send(run, "wandb", "p"))
    assert any(path.stat().st_size > 1000 for path in folder.parent.glob("*.wandb"))
