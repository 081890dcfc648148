# SPDX-License-Identifier: Apache-2.0
"""The learning rate goes into the compiled step as a Python number that changes: it is traced anew each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

WRONG = "options.rate / (1 + step / 100)"


def prepare(run: Run) -> None:
    _script.edit(run, "train_step(inputs, labels, options.rate)", f"train_step(inputs, labels, {WRONG})")


def proof(run: Run) -> str:
    return _script.proof(run, WRONG)
