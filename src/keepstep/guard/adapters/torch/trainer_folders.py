# SPDX-License-Identifier: Apache-2.0
"""Folders that a trainer fills: what it writes by itself (``trainer_state.json``) is recorded when the save ends."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

PART = "folders of trainers"


def watch(state: TorchState) -> None:
    """Wait for transformers and accelerate; nothing is imported here."""
    session = state.session

    def trainer(module: Any) -> None:
        with session.part(PART):
            kind = module.Trainer
            kind._save_checkpoint = session.ledger.fills(lambda: _version("transformers"), _of_trainer)(
                kind._save_checkpoint
            )

    def accelerator(module: Any) -> None:
        with session.part(PART):
            kind = module.Accelerator
            kind.save_state = session.ledger.fills(lambda: _version("accelerate"), _of_accelerator)(kind.save_state)

    after_import({"transformers.trainer": trainer, "accelerate.accelerator": accelerator})


def _of_trainer(result: Any, trainer: Any, model: Any, trial: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Only one process writes these files, so only that one may record them: another could read half of one."""
    if not trainer.args.should_save:
        return None
    return os.path.join(trainer._get_output_dir(trial=trial), f"checkpoint-{trainer.state.global_step}")


def _of_accelerator(result: Any, accelerator: Any, *args: Any, **kwargs: Any) -> Any:
    return result if accelerator.is_main_process else None


def _version(package: str) -> str:
    return f"{package} {getattr(sys.modules.get(package), '__version__', 'of unknown version')}"
