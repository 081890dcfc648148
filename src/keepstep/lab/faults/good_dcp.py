# SPDX-License-Identifier: Apache-2.0
"""Not a fault: a sound sharded checkpoint (torch.distributed.checkpoint) to resume from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SAVE = """
import sys, torch, train
import torch.distributed.checkpoint as dcp
state = train.Encoder(width=int(sys.argv[2])).state_dict()
dcp.save({"model": state, "step": torch.tensor(20)}, checkpoint_id=sys.argv[1], no_dist=True)
"""


def prepare(run: Run, width: int = 32) -> None:
    folder = run.work / "sharded"
    run.in_training_python(SAVE, str(folder), str(width))
    for args in run.args:
        args += ["--resume", str(folder)]


def proof(run: Run) -> str:
    return run.proof_in_log(0, "resumed from")
