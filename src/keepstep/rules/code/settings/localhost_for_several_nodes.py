# SPDX-License-Identifier: Apache-2.0
"""COD413: the meeting point of several nodes is localhost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import AccelerateConfig, LaunchScript, ScriptOption
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import LOCAL, Started, started
from keepstep.rules.code.settings._settings import all_settings, at_line

_OPTIONS = ("master_addr", "rdzv_endpoint", "main_process_ip")


@rule(
    id="COD413",
    cause=Cause.CONFIG_LOCALHOST_ADDRESS,
    needs=(LaunchScript, AccelerateConfig),
    confidence=Confidence.SUPPORTED,
)
def localhost_for_several_nodes(seen: EvidenceSet) -> Findings:
    """The meeting point of several nodes is localhost, which is another host for each of them.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    export MASTER_ADDR=localhost
    srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 train.py
    ```

    ## Why it happens
    The script worked on one node.

    ## How we know
    The address is written out, and the same command runs on several nodes: srun starts it there, or Accelerate's
    settings have several machines.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 train.py
    ```

    ## When this is wrong
    The command line, or the program, replaces the address.
    """
    overridden = False
    for each in started(seen, "torchrun", "accelerate", "python"):
        overridden = overridden or (each.command.program == "accelerate" and each.has("main_process_ip"))
        nodes = (each.nodes or 1) if each.of_srun else 1
        if nodes < 2 or (each.number("nnodes", "num_machines") or nodes) < 2 or each.has("standalone"):
            continue
        for value, place in _addresses(each):
            yield _found(value, nodes, place)
            break
    for file in all_settings(seen, AccelerateConfig):
        machines, address = file.number("num_machines") or 1, file.text("main_process_ip")
        if machines > 1 and LOCAL.fullmatch(address) and not overridden:
            yield _found(address, machines, file.at("main_process_ip"))


def _addresses(each: Started) -> Iterator[tuple[str, Evidence[LaunchScript]]]:
    """Where the meeting point of a command is said to be this host. Its own option decides."""
    own = each.option(*_OPTIONS)
    if own is not None:
        if own.literal and LOCAL.fullmatch(own.value or ""):
            yield own.value or "", each.place
        return
    variables: tuple[ScriptOption, ...] = (*each.command.sets, *each.script.fact.variables)
    for variable in variables:
        if variable.name == "MASTER_ADDR" and variable.literal and each.command.program == "python":
            if LOCAL.fullmatch(variable.value or ""):
                yield variable.value or "", at_line(each.script, variable.line)
            return


def _found(address: str, nodes: int, place: Evidence[Any]) -> Found:
    return Found(
        title=f"{nodes} nodes are to meet at {address}",
        because="for every node that is itself, so each waits alone for the others",
        evidence=(place,),
        fixes=(
            Fix(
                do="give the address of the first node; under Slurm:",
                command='export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            ),
        ),
    )
