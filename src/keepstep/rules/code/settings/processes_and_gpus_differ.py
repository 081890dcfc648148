# SPDX-License-Identifier: Apache-2.0
"""COD414: the launcher starts another number of processes than there are GPUs on a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import KubernetesObject, LaunchScript
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, count, rule
from keepstep.rules.code.settings._pods import pods
from keepstep.rules.code.settings._scripts import PROCESSES, gpus_per_node, started
from keepstep.rules.code.settings._settings import at_line


@rule(
    id="COD414",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(LaunchScript, KubernetesObject),
    confidence=Confidence.SUPPORTED,
)
def processes_and_gpus_differ(seen: EvidenceSet) -> Findings:
    """A node gets more processes than it has GPUs.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --gres=gpu:4
    torchrun --standalone --nproc_per_node=8 train.py
    ```

    ## Why it happens
    The script or the manifest was written for another machine, and one of the two numbers was changed.

    ## How we know
    Both numbers are written out: `--gres`, `--gpus-per-node` or `nvidia.com/gpu`, and `--nproc_per_node` or
    `--num_gpus`.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --gres=gpu:4
    torchrun --standalone --nproc_per_node=4 train.py
    ```

    ## When this is wrong
    When the processes share GPUs on purpose, or use none.
    """
    for processes, gpus, evidence in (*_of_scripts(seen), *_of_pods(seen)):
        if processes > gpus:
            yield Found(
                title=f"{count(processes, 'process', 'processes')} for {count(gpus, 'GPU')} on each node",
                because="those without a GPU of their own fail with `invalid device ordinal`, or share one",
                evidence=evidence,
                fixes=(Fix(do=f"start {gpus} on each node, or ask for {processes} GPUs"),),
            )


_Numbers = tuple[int, int, tuple[Evidence[Any], ...]]


def _of_scripts(seen: EvidenceSet) -> Iterator[_Numbers]:
    for each in started(seen, "torchrun", "deepspeed"):
        processes, gpus = each.number(*PROCESSES), gpus_per_node(each.script.fact)
        if processes is not None and gpus is not None and not each.command.block:
            yield processes, gpus[0], (each.place, at_line(each.script, gpus[1].line))


def _of_pods(seen: EvidenceSet) -> Iterator[_Numbers]:
    for group in pods(seen):
        for container in group.containers():
            processes, gpus = container.option(*PROCESSES), container.gpus
            if processes is not None and gpus is not None:
                yield processes[1], gpus[1], (group.file.at(*processes[0]), group.file.at(*gpus[0]))
