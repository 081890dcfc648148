# SPDX-License-Identifier: Apache-2.0
"""The torch checkpoint to resume from is of a wider model with another layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SAVE = """
import sys, torch, train
state = train.Classifier(width=96).state_dict()
state["extra.weight"] = state.pop("auxiliary.weight")
torch.save({"model": state, "step": 40}, sys.argv[1])
print(*state)
"""


def prepare(run: Run) -> None:
    path = run.work / "last.pt"
    names = run.in_training_python(SAVE, str(path))
    run.strike(f"last.pt has the keys {names.strip()}")
    for args in run.args:
        args += ["--resume", str(path)]


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
