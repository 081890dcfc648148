# SPDX-License-Identifier: Apache-2.0
"""Only the chief evaluates, and the evaluation ends in a collective: the others never come to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

RIGHT = "if options.evaluate and step % options.evaluate == 0:"
WRONG = "if options.evaluate and step % options.evaluate == 0 and rank == 0:"


def prepare(run: Run) -> None:
    _script.edit(run, RIGHT, WRONG)


def proof(run: Run) -> str:
    return _script.proof(run, WRONG)
