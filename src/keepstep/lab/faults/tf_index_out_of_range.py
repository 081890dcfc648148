# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG of the last worker has an index that the cluster does not have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    env = run.env[-1]
    config = json.loads(env["TF_CONFIG"])
    config["task"]["index"] = run.scenario.ranks
    env["TF_CONFIG"] = json.dumps(config)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    config = json.loads(run.env[-1]["TF_CONFIG"])
    count, index = len(config["cluster"]["worker"]), config["task"]["index"]
    if index < count:
        raise Unproven(f"index {index} is one of {count}")
    return f"the last process has index {index} in a cluster of {count} workers"
