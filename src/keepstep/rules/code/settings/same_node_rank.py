# SPDX-License-Identifier: Apache-2.0
"""COD411: every node starts with the same node rank."""

from __future__ import annotations

from typing import Any

from keepstep.model.facts import AccelerateConfig, LaunchScript
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import Started, started
from keepstep.rules.code.settings._settings import all_settings, at_line, named


@rule(id="COD411", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def same_node_rank(seen: EvidenceSet) -> Findings:
    """srun starts the same command on several nodes, and the node's rank in it is a constant.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    srun torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=$HEAD --master_port=29500 train.py
    ```

    ## Why it happens
    The command was written for the first of several shells, or the shell of the batch script replaced
    `$SLURM_NODEID`, which is 0 there.

    ## How we know
    The batch script asks for several nodes, srun starts the command on all of them, and the node's rank is a number
    or is replaced before srun starts. With `--rdzv_backend=c10d` torchrun ignores it, and nothing is said.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun bash -c 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR train.py'
    ```

    ## When this is wrong
    The script is sent to each node with its own number in it.
    """
    configs = all_settings(seen, AccelerateConfig)
    for each in started(seen, "torchrun", "accelerate"):
        if not each.of_srun or (each.nodes or 1) < 2 or _is_dynamic(each):
            continue
        rank = each.option("node_rank", "machine_rank")
        script = each.script.fact
        if rank is not None and rank.literal and (rank.value or "").isdecimal():
            yield _found(each, f"every node starts as node {rank.value}", (each.place,))
        elif rank is not None and script.index_early and script.index_early in (rank.value or ""):
            yield _found(
                each,
                f"the script's shell replaces ${script.index_early} before srun starts",
                (at_line(each.script, script.index_line),),
            )
        elif rank is None and each.command.program == "accelerate":
            file = named(configs, each.text("config_file") or "", each.script.origin.source)
            machines = file.number("num_machines") if file is not None else None
            if file is not None and (machines or 1) > 1 and file.text("machine_rank").isdecimal():
                title = f"every node starts as machine {file.text('machine_rank')}"
                yield _found(each, title, (each.place, file.at("machine_rank")))


def _is_dynamic(each: Started) -> bool:
    """Whether the launcher gives the ranks itself, or may."""
    backend = each.option("rdzv_backend")
    return backend is not None and backend.value != "static"


def _found(each: Started, title: str, evidence: tuple[Evidence[Any], ...]) -> Found:
    option = "--machine_rank" if each.command.program == "accelerate" else "--node_rank"
    return Found(
        title=title,
        because=f"srun starts the same command on {each.nodes} nodes, so all of them claim the same place",
        evidence=evidence,
        fixes=(Fix(do=f"let the shell of each task fill it in: srun bash -c '... {option} $SLURM_NODEID ...'"),),
    )
