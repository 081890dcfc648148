# SPDX-License-Identifier: Apache-2.0
"""Not a fault: a sound torch checkpoint to resume from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SAVE = """
import sys, torch, train
torch.save({"model": train.Classifier().state_dict(), "step": 40}, sys.argv[1])
"""


def prepare(run: Run) -> None:
    path = run.work / "last.pt"
    run.in_training_python(SAVE, str(path))
    for args in run.args:
        args += ["--resume", str(path)]


def proof(run: Run) -> str:
    return run.proof_in_log(0, "resumed from")
