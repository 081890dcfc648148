# SPDX-License-Identifier: Apache-2.0
"""The job was given GPUs, but its environment reaches none: it trains on the CPU and ends well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

GIVEN = "    print(f\"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}\", flush=True)\n"
EDITS = {
    "torch": ("    torch.set_num_threads(1)\n", '    torch.amp.GradScaler("cuda")\n'),
    "tensorflow": (
        "    tf.config.threading.set_intra_op_parallelism_threads(1)\n",
        "    if not tf.config.list_physical_devices('GPU'):\n"
        "        print('no GPU found, training on the CPU', flush=True)\n",
    ),
}
WORDS = {"torch": "CUDA is not available", "tensorflow": "no GPU found"}


def prepare(run: Run) -> None:
    line, more = EDITS[run.scenario.framework]
    _script.edit(run, line, line + GIVEN + more)
    for rank, env in enumerate(run.env):
        env["CUDA_VISIBLE_DEVICES"] = str(rank)


def proof(run: Run) -> str:
    told = run.proof_in_log(run.scenario.struck, WORDS[run.scenario.framework])
    return f"{told}; {run.proof_in_log(run.scenario.struck, 'CUDA_VISIBLE_DEVICES=')}"
