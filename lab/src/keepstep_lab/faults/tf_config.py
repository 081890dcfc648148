# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG is wrong, late or differs between the workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from . import Fault
from ._script import ScriptMistake

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class DisagreeingTfConfig(Fault):
    """One host's TF_CONFIG is of an earlier cluster, which had one worker more."""

    def prepare(self, run: Run) -> None:
        for env in run.env[run.scenario.struck :]:
            config = json.loads(env["TF_CONFIG"])
            workers = config["cluster"]["worker"]
            workers.append(f"{workers[-1].rpartition(':')[0]}:{run.ports[run.scenario.ranks]}")
            env["TF_CONFIG"] = json.dumps(config)

    def proof(self, run: Run) -> str:
        counts = [len(json.loads(env["TF_CONFIG"])["cluster"]["worker"]) for env in run.env]
        if len(set(counts)) == 1:
            raise run.unproven(f"all were told of {counts[0]} workers")
        return f"the processes were told of {counts} workers"


class DuplicateTask(Fault):
    """TF_CONFIG of one worker was copied from worker 0: two processes are the same task."""

    def prepare(self, run: Run) -> None:
        env = run.env[run.scenario.struck]
        config = json.loads(env["TF_CONFIG"])
        config["task"]["index"] = 0
        env["TF_CONFIG"] = json.dumps(config)

    def proof(self, run: Run) -> str:
        tasks = [json.loads(env["TF_CONFIG"])["task"]["index"] for env in run.env]
        if tasks.count(0) < 2:
            raise run.unproven(f"the tasks are {tasks}")
        return f"the processes were told to be tasks {tasks}"


class TfIndexOutOfRange(Fault):
    """TF_CONFIG of the last worker has an index that the cluster does not have."""

    def prepare(self, run: Run) -> None:
        env = run.env[-1]
        config = json.loads(env["TF_CONFIG"])
        config["task"]["index"] = run.scenario.ranks
        env["TF_CONFIG"] = json.dumps(config)

    def proof(self, run: Run) -> str:
        config = json.loads(run.env[-1]["TF_CONFIG"])
        count, index = len(config["cluster"]["worker"]), config["task"]["index"]
        if index < count:
            raise run.unproven(f"index {index} is one of {count}")
        return f"the last process has index {index} in a cluster of {count} workers"


class MalformedTfConfig(Fault):
    """TF_CONFIG of one worker is not JSON: a comma is missing."""

    def prepare(self, run: Run) -> None:
        env = run.env[run.scenario.struck]
        env["TF_CONFIG"] = env["TF_CONFIG"].replace(", ", " ")

    def proof(self, run: Run) -> str:
        try:
            json.loads(run.env[run.scenario.struck]["TF_CONFIG"])
        except ValueError as error:
            return f"TF_CONFIG of rank {run.scenario.struck} is not JSON: {error}"
        raise run.unproven("TF_CONFIG is sound")


class LateTfConfig(ScriptMistake):
    """The script sets TF_CONFIG itself, but only after the strategy was made: each worker trains alone."""

    STRATEGY = "    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)\n"
    edits = (
        (
            '    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]\n',
            '    rank = int(os.environ["WORKER_INDEX"])\n',
        ),
        (STRATEGY, STRATEGY + '    os.environ["TF_CONFIG"] = os.environ["CLUSTER"]\n'),
    )
    shown = 'os.environ["TF_CONFIG"] = os.environ["CLUSTER"]'

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        for rank, env in enumerate(run.env):
            env |= {"CLUSTER": env.pop("TF_CONFIG"), "WORKER_INDEX": str(rank)}

    def proof(self, run: Run) -> str:
        alone = [run.proof_in_log(rank, "1 replicas") for rank in range(run.scenario.ranks)]
        return f"{super().proof(run)}; {alone[-1]}"
