# SPDX-License-Identifier: Apache-2.0
"""COD412: torchrun --standalone on several nodes."""

from __future__ import annotations

from keepstep.model.facts import LaunchScript
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import started


@rule(id="COD412", cause=Cause.CONFIG_TRAINS_ALONE, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def standalone_on_several_nodes(seen: EvidenceSet) -> Findings:
    """torchrun has to meet nobody (`--standalone`), and to run on several nodes.

    ## What it looks like
    ```sh
    torchrun --standalone --nnodes=2 --nproc_per_node=8 train.py
    ```

    ## Why it happens
    The command for one machine was extended. `--standalone` replaces the meeting point by one on this host, whatever
    else is given, so the nodes never meet.

    ## How we know
    Both options stand in one command; or srun starts the command on several nodes at once.

    ## What to do
    ```sh
    torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 --rdzv_id=$JOB train.py
    ```

    ## When this is wrong
    When each node is meant to train a model of its own.
    """
    for each in started(seen, "torchrun"):
        if not each.has("standalone"):
            continue
        asked = each.number("nnodes") or 1
        nodes = each.nodes or 1 if each.of_srun else 1
        if asked > 1 or nodes > 1:
            waits = f"each waits for {asked} nodes at a meeting point of its own" if asked > 1 else "each trains alone"
            yield Found(
                title=f"--standalone keeps {max(asked, nodes)} nodes from meeting",
                because=f"with --standalone every node meets on its own host only: {waits}",
                evidence=(each.place,),
                fixes=(Fix(do="use --rdzv_backend=c10d --rdzv_endpoint=FIRST_NODE:29500 instead of --standalone"),),
            )
