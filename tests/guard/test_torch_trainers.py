# SPDX-License-Identifier: Apache-2.0
"""Callbacks of Lightning and Hugging Face: with the real trainers where they are installed, else with stand-ins."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.guard.adapters.torch import trainers
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.signals.blackbox import read as read_box
from tests.lazy_framework import lazy_framework


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Identity(rank=0), {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off"})


def phases(session: Session) -> list[BoxPhase]:
    session.close()
    assert session.folder is not None
    (box,) = session.folder.glob("*.box")
    return [BoxPhase(record.value) for record in read_box(box.read_bytes()).records if record.kind == RecordKind.PHASE]


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, base: str) -> type:
    """A package of that name whose callbacks have no methods: the real ones are not installed for the tests."""
    kind = type(base, (), {})
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), types.ModuleType(".".join(parts[:depth])))
    setattr(sys.modules[name], base, kind)
    return kind


def test_a_lightning_callback_tells_validation_and_saving(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    kind = stand_in(monkeypatch, "lightning.pytorch.callbacks", "Callback")
    callback = trainers.lightning(session)
    assert isinstance(callback, kind)
    callback.on_train_batch_start(None, None, None, 0)
    callback.on_validation_start(None, None)
    callback.on_validation_end(None, None)
    assert callback.on_save_checkpoint(None, None, {}) is None
    callback.on_train_batch_start(None, None, None, 1)
    told = [
        BoxPhase.START,
        BoxPhase.COMPUTE,
        BoxPhase.EVALUATION,
        BoxPhase.COMPUTE,
        BoxPhase.CHECKPOINT,
        BoxPhase.COMPUTE,
        BoxPhase.END,
    ]
    assert phases(session) == told


def test_a_hugging_face_callback_tells_evaluation_and_saving(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    kind = stand_in(monkeypatch, "transformers.trainer_callback", "TrainerCallback")
    callback = trainers.hugging_face(session)
    assert isinstance(callback, kind)
    callback.on_step_begin(None, None, None)
    assert callback.on_step_end(None, None, types.SimpleNamespace(should_save=True)) is None
    callback.on_save(None, None, None)
    callback.on_prediction_step(None, None, None)
    callback.on_evaluate(None, None, None)
    told = [
        BoxPhase.START,
        BoxPhase.COMPUTE,
        BoxPhase.CHECKPOINT,
        BoxPhase.COMPUTE,
        BoxPhase.EVALUATION,
        BoxPhase.COMPUTE,
        BoxPhase.END,
    ]
    assert phases(session) == told


def in_order(told: list[BoxPhase], wanted: list[BoxPhase]) -> bool:
    """Whether these come one after another, with whatever lies in between."""
    rest = iter(told)
    return all(each in rest for each in wanted)


@pytest.mark.frameworks("torch")
def test_the_real_lightning_tells_validation_and_saving(session: Session, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    torch = lazy_framework("torch")
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: torch.Tensor) -> torch.Tensor:
            return self.layer(batch).mean()

        def validation_step(self, batch: torch.Tensor) -> None:
            assert session.phase_now == BoxPhase.EVALUATION
            self.log("loss", self.layer(batch).mean())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    rows = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2)
    callback = trainers.lightning(session)
    assert isinstance(callback, Callback)
    saves = ModelCheckpoint(dirpath=tmp_path / "saved", every_n_train_steps=2, save_top_k=-1)
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[callback, saves]
    )
    trainer.fit(Model(), rows, rows)
    assert list((tmp_path / "saved").iterdir())
    epoch = [BoxPhase.COMPUTE, BoxPhase.CHECKPOINT, BoxPhase.COMPUTE, BoxPhase.EVALUATION]
    assert in_order(phases(session), [BoxPhase.START, *epoch, *epoch, BoxPhase.COMPUTE, BoxPhase.END])


@pytest.mark.frameworks("torch")
def test_the_real_hugging_face_tells_evaluation_and_saving(session: Session, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch = lazy_framework("torch")
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
            if not self.training:
                assert session.phase_now == BoxPhase.EVALUATION
            return {"loss": self.layer(x).mean(), "logits": self.layer(x)}

    rows = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(8)]
    callback = trainers.hugging_face(session)
    assert isinstance(callback, TrainerCallback)
    settings = TrainingArguments(
        output_dir=str(tmp_path / "saved"), max_steps=4, per_device_train_batch_size=2, save_steps=2,
        eval_strategy="steps", eval_steps=2,
        use_cpu=True, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    Trainer(model=Model(), args=settings, train_dataset=rows, eval_dataset=rows, callbacks=[callback]).train()
    assert list((tmp_path / "saved").iterdir())
    turn = [BoxPhase.COMPUTE, BoxPhase.EVALUATION, BoxPhase.CHECKPOINT]
    assert in_order(phases(session), [BoxPhase.START, *turn, *turn, BoxPhase.END])


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, f"{name}.callbacks", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", None)
    with pytest.raises(UserError):
        trainers.lightning(session)
