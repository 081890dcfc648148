# SPDX-License-Identifier: Apache-2.0
"""COD405: Accelerate's processes cannot be divided among its machines."""

from __future__ import annotations

from keepstep.model.facts import AccelerateConfig
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._settings import all_settings


@rule(id="COD405", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(AccelerateConfig,))
def processes_lost_in_division(seen: EvidenceSet) -> Findings:
    """Accelerate's num_processes is no multiple of num_machines, so fewer processes start than it says.

    ## What it looks like
    ```yaml
    compute_environment: LOCAL_MACHINE
    distributed_type: MULTI_GPU
    num_machines: 2
    num_processes: 1
    mixed_precision: bf16
    ```

    ## Why it happens
    `num_processes` is the number for all machines together. Many write that of one machine.

    ## How we know
    Both are written out, and the division leaves a remainder. `accelerate launch` drops it.

    ## What to do
    ```yaml
    compute_environment: LOCAL_MACHINE
    distributed_type: MULTI_GPU
    num_machines: 2
    num_processes: 16
    mixed_precision: bf16
    ```

    ## When this is wrong
    The command line gives other numbers.
    """
    for file in all_settings(seen, AccelerateConfig):
        machines, processes = file.number("num_machines"), file.number("num_processes")
        if machines is None or processes is None or processes % machines == 0 or file.text("distributed_type") == "TPU":
            continue
        each = processes // machines
        yield Found(
            title=f"{processes} processes cannot be divided among {machines} machines",
            because=f"num_processes counts those of all machines; each of them starts {each or 'none'}",
            evidence=(file.at("num_processes"), file.at("num_machines")),
            fixes=(Fix(do="set num_processes to the number of machines times the GPUs of one"),),
        )
