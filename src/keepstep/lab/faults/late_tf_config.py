# SPDX-License-Identifier: Apache-2.0
"""The script sets TF_CONFIG itself, but only after the strategy was made: each worker trains alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

STRATEGY = "    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)\n"
RANK = '    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]\n'
LATE = '    rank = int(os.environ["WORKER_INDEX"])\n'
SET = '    os.environ["TF_CONFIG"] = os.environ["CLUSTER"]\n'


def prepare(run: Run) -> None:
    _script.edit(run, RANK, LATE)
    _script.edit(run, STRATEGY, STRATEGY + SET)
    for rank, env in enumerate(run.env):
        env |= {"CLUSTER": env.pop("TF_CONFIG"), "WORKER_INDEX": str(rank)}


def proof(run: Run) -> str:
    alone = [run.proof_in_log(rank, "1 replicas") for rank in range(run.scenario.ranks)]
    return f"{_script.proof(run, SET.strip())}; {alone[-1]}"
