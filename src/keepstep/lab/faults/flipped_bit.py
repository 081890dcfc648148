# SPDX-License-Identifier: Apache-2.0
"""One bit of one weight of the rank's replica flips, as by a fault of its memory; the others keep theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import tell

if TYPE_CHECKING:
    from keepstep.lab.run import Run

BIT = 20
_flipped: list[float] = []


def change_weights(weights: Any) -> Any:
    if not _flipped:
        bits = weights[0].data.view(-1).numpy().view("int32")
        before = float(weights[0].data.view(-1)[5])
        bits[5] ^= 1 << BIT
        _flipped.append(before)
        tell(f"weight 5 went from {before:.6f} to {float(weights[0].data.view(-1)[5]):.6f}")
    return weights


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    for _, what in run.strikes():
        if what.startswith("weight 5"):
            return what
    raise Unproven("no bit flipped")
