# SPDX-License-Identifier: Apache-2.0
"""The model is built outside the strategy's scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

WRONG = "    model = build()\n    with strategy.scope():\n        loss ="


def prepare(run: Run) -> None:
    _script.edit(run, "    with strategy.scope():\n        model = build()\n        loss =", WRONG)


def proof(run: Run) -> str:
    return _script.proof(run, "    model = build()")
