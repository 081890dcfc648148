# SPDX-License-Identifier: Apache-2.0
"""Every process was told that it is the only one of its job."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

WORDS = re.compile(r"world size 1\b|\b1 processes|\b1 replicas")


def prepare(run: Run) -> None:
    for rank, env in enumerate(run.env):
        address = f"{run.address_of(rank)}:{run.ports[rank]}"
        if run.scenario.framework == "torch":
            env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(run.ports[rank])}
        elif run.scenario.framework == "jax":
            env |= {"PROCESS_ID": "0", "NUM_PROCESSES": "1", "COORDINATOR_ADDRESS": address}
        else:
            task = {"type": "worker", "index": 0}
            env["TF_CONFIG"] = json.dumps({"cluster": {"worker": [address]}, "task": task})


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    with_others = [rank for rank in range(run.scenario.ranks) if not WORDS.search(run.log_of(rank))]
    if with_others:
        raise Unproven(f"ranks {with_others} did not say that they are alone")
    return f"each of {run.scenario.ranks} processes said that it is the only one"
