# SPDX-License-Identifier: Apache-2.0
"""Callbacks of Lightning and Hugging Face: against the real trainers where they are installed, else against their shape."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from keepstep.core.blackbox import Kind, Phase
from keepstep.core.blackbox import read as read_box
from keepstep.errors import UserError
from keepstep.guard.adapters import trainers
from keepstep.guard.identity import Identity
from keepstep.guard.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Identity(rank=0), {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off"})


def phases(session: Session) -> list[Phase]:
    session.close()
    assert session.folder is not None
    (box,) = session.folder.glob("*.box")
    return [Phase(record.value) for record in read_box(box.read_bytes()).records if record.kind == Kind.PHASE]


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
    told = [Phase.START, Phase.COMPUTE, Phase.EVALUATION, Phase.COMPUTE, Phase.CHECKPOINT, Phase.COMPUTE, Phase.END]
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
    told = [Phase.START, Phase.COMPUTE, Phase.CHECKPOINT, Phase.COMPUTE, Phase.EVALUATION, Phase.COMPUTE, Phase.END]
    assert phases(session) == told


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, f"{name}.callbacks", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", None)
    with pytest.raises(UserError):
        trainers.lightning(session)
