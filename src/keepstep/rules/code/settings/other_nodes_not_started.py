# SPDX-License-Identifier: Apache-2.0
"""COD417: a batch script for several nodes starts its launcher on the first one only."""

from __future__ import annotations

from keepstep.model.facts import LaunchScript
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import directive, nodes_of, started
from keepstep.rules.code.settings._settings import at_line

_OF_ALL = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")


@rule(id="COD417", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def other_nodes_not_started(seen: EvidenceSet) -> Findings:
    """A batch script runs on its first node only, and its launcher waits for all of them.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
    ```

    ## Why it happens
    Slurm reserves all nodes, and runs the script on the first. Only what srun starts runs on the others.

    ## How we know
    The script asks for several nodes, the launcher waits for that many, and nothing in the script starts commands on
    other hosts.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
    ```

    ## When this is wrong
    Another script starts the rest.
    """
    for each in started(seen, "torchrun", "accelerate"):
        script, nodes = each.script.fact, nodes_of(each.script.fact) or 1
        asked = each.option("nnodes", "num_machines")
        if nodes < 2 or script.elsewhere or each.command.under or each.command.block or asked is None:
            continue
        is_all = any(name in (asked.value or "") for name in _OF_ALL)
        rank = each.option("node_rank", "machine_rank")
        is_mine = rank is None or rank.literal or "SLURM" in (rank.value or "")
        if is_mine and (is_all or each.number("nnodes", "num_machines") == nodes):
            given = directive(script, "nodes")
            yield Found(
                title=f"only the first of {nodes} nodes starts anything",
                because="Slurm runs a batch script on the first node; without srun the launcher waits for the others",
                evidence=(each.place, *((at_line(each.script, given.line),) if given is not None else ())),
                fixes=(Fix(do="put srun before the launcher, with one task on each node"),),
            )
