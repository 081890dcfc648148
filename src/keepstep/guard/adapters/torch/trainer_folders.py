# SPDX-License-Identifier: Apache-2.0
"""Folders that a trainer fills: what it writes by itself (``trainer_state.json``) is recorded when the save ends. Of
DeepSpeed's folders every rank writes a part, so all ranks record it together."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

PART = "folders of trainers"


def watch(state: TorchState) -> None:
    """Wait for transformers, accelerate and DeepSpeed; nothing is imported here."""
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

    def engine(module: Any) -> None:
        with session.part(PART):
            kind, ledger = module.DeepSpeedEngine, session.ledger
            saves = ledger.saves(
                "deepspeed", lambda: _version("deepspeed"), _saved_by_engine, together=_by_all, by_others=True
            )
            kind.save_checkpoint = saves(kind.save_checkpoint)
            kind.load_checkpoint = ledger.loads(_loaded_by_engine, together=_by_all)(kind.load_checkpoint)

    def _by_all(*args: Any, **kwargs: Any) -> bool:
        return state.world > 1

    after_import(
        {"transformers.trainer": trainer, "accelerate.accelerator": accelerator, "deepspeed.runtime.engine": engine}
    )


def _of_trainer(result: Any, trainer: Any, model: Any, trial: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Only one process writes these files, so only that one may record them: another could read half of one."""
    if not trainer.args.should_save:
        return None
    return os.path.join(trainer._get_output_dir(trial=trial), f"checkpoint-{trainer.state.global_step}")


def _of_accelerator(result: Any, accelerator: Any, *args: Any, **kwargs: Any) -> Any:
    return result if accelerator.is_main_process else None


def _saved_by_engine(engine: Any, save_dir: Any, tag: Any = None, *args: Any, **kwargs: Any) -> Any:
    return os.path.join(save_dir, f"global_step{engine.global_steps}" if tag is None else str(tag))


def _loaded_by_engine(engine: Any, load_dir: Any, tag: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Without a tag, the file ``latest`` names it."""
    if tag is None:
        with open(os.path.join(load_dir, "latest")) as stream:
            tag = stream.read().strip()
    return os.path.join(load_dir, str(tag))


def _version(package: str) -> str:
    return f"{package} {getattr(sys.modules.get(package), '__version__', 'of unknown version')}"
