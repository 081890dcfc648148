# SPDX-License-Identifier: Apache-2.0
"""One host's TF_CONFIG is of an earlier cluster, which had one worker more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for env in run.env[run.scenario.struck :]:
        config = json.loads(env["TF_CONFIG"])
        workers = config["cluster"]["worker"]
        workers.append(f"{workers[-1].rpartition(':')[0]}:{run.ports[run.scenario.ranks]}")
        env["TF_CONFIG"] = json.dumps(config)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    counts = [len(json.loads(env["TF_CONFIG"])["cluster"]["worker"]) for env in run.env]
    if len(set(counts)) == 1:
        raise Unproven(f"all were told of {counts[0]} workers")
    return f"the processes were told of {counts} workers"
