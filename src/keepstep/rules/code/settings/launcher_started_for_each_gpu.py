# SPDX-License-Identifier: Apache-2.0
"""COD415: srun starts a launcher for each GPU, and each of them starts a process for each GPU."""

from __future__ import annotations

from keepstep.model.facts import LaunchScript
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import directive, started
from keepstep.rules.code.settings._settings import at_line


@rule(id="COD415", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def launcher_started_for_each_gpu(seen: EvidenceSet) -> Findings:
    """Several tasks per node each start torchrun, which starts a process for each GPU once more.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
    ```

    ## Why it happens
    One task per GPU is right where srun starts the program itself. torchrun is a launcher of its own: it needs one
    task per node.

    ## How we know
    srun takes the number of tasks from the batch script or from its own options, and both numbers are written out.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
    ```

    ## When this is wrong
    When the tasks of a node share its GPUs on purpose.
    """
    for each in started(seen, "torchrun"):
        tasks, processes = each.tasks_per_node, each.number("nproc_per_node")
        if tasks is None or processes is None or tasks < 2 or processes < 2:
            continue
        given = directive(each.script.fact, "ntasks_per_node", "ntasks")
        where = (at_line(each.script, given.line),) if given is not None else ()
        yield Found(
            title=f"{tasks} x {processes} processes start on each node",
            because=f"srun starts torchrun {tasks} times on a node, and each starts {processes} processes there",
            evidence=(each.place, *where),
            fixes=(Fix(do="start one torchrun on each node: --ntasks-per-node=1"),),
        )
