# SPDX-License-Identifier: Apache-2.0
"""Callbacks for trainers that own the loop: Lightning and Hugging Face's Trainer.

The hooks on torch already see their steps and batches; a callback adds what only the trainer knows: when it validates
and when it saves. Each is built for whichever package the script has.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.errors import UserError
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import MarksPhases

_COMPUTE, _CHECKPOINT, _EVALUATION = int(BoxPhase.COMPUTE), int(BoxPhase.CHECKPOINT), int(BoxPhase.EVALUATION)


def lightning(session: MarksPhases) -> Any:
    """A callback for Lightning's Trainer, of ``lightning`` or ``pytorch_lightning``."""
    module = _first("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")
    phase = _phase(session)

    class KeepstepCallback(module.Callback):  # type: ignore[name-defined,misc]
        """Tells the guard when the trainer trains, validates and saves."""

        def on_train_batch_start(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

        def on_validation_start(self, *args: Any, **kwargs: Any) -> None:
            phase(_EVALUATION)

        def on_validation_end(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

        def on_test_start(self, *args: Any, **kwargs: Any) -> None:
            phase(_EVALUATION)

        def on_test_end(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

        def on_save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            phase(_CHECKPOINT)

        def on_train_epoch_end(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

    session.open()
    return KeepstepCallback()


def hugging_face(session: MarksPhases) -> Any:
    """A callback for transformers' Trainer."""
    module = _first("transformers.trainer_callback", "transformers")
    phase = _phase(session)

    class KeepstepCallback(module.TrainerCallback):  # type: ignore[name-defined,misc]
        """Tells the guard when the trainer trains, predicts and saves."""

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

        def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
            phase(_EVALUATION)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._what_follows(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._what_follows(control)

        def _what_follows(self, control: Any) -> None:
            """It evaluates before it saves."""
            if getattr(control, "should_evaluate", False):
                phase(_EVALUATION)
            elif getattr(control, "should_save", False):
                phase(_CHECKPOINT)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            phase(_CHECKPOINT if getattr(control, "should_save", False) else _COMPUTE)

        def on_predict(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

        def on_save(self, *args: Any, **kwargs: Any) -> None:
            phase(_COMPUTE)

    session.open()
    return KeepstepCallback()


def _phase(session: MarksPhases) -> Callable[[int], None]:
    """Entering a phase; a callback must return nothing."""
    enter = session.guarded("trainer callback", session.phase)

    def call(phase: int) -> None:
        enter(phase)

    return call


def _first(*names: str) -> Any:
    """The first of these modules that is loaded, or else can be."""
    for name in names:
        if sys.modules.get(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise UserError(f"none of these is installed: {', '.join(sorted({name.partition('.')[0] for name in names}))}")
