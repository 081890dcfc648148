# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG of one worker was copied from worker 0: two processes are the same task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    env = run.env[run.scenario.struck]
    config = json.loads(env["TF_CONFIG"])
    config["task"]["index"] = 0
    env["TF_CONFIG"] = json.dumps(config)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    tasks = [json.loads(env["TF_CONFIG"])["task"]["index"] for env in run.env]
    if tasks.count(0) < 2:
        raise Unproven(f"the tasks are {tasks}")
    return f"the processes were told to be tasks {tasks}"
