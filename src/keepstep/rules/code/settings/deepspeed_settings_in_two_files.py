# SPDX-License-Identifier: Apache-2.0
"""COD406: Accelerate is given DeepSpeed's file, and the same settings once more."""

from __future__ import annotations

from keepstep.model.facts import AccelerateConfig
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.code.settings._settings import all_settings

PART = "deepspeed_config"
REFUSED = (
    "gradient_accumulation_steps",
    "gradient_clipping",
    "zero_stage",
    "offload_optimizer_device",
    "offload_param_device",
    "offload_param_nvme_path",
    "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
)


@rule(id="COD406", cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION, needs=(AccelerateConfig,))
def deepspeed_settings_in_two_files(seen: EvidenceSet) -> Findings:
    """Accelerate's settings name a file of DeepSpeed, and repeat what that file decides.

    ## What it looks like
    ```yaml
    compute_environment: LOCAL_MACHINE
    distributed_type: DEEPSPEED
    deepspeed_config:
      deepspeed_config_file: ds.json
      zero_stage: 3
    num_machines: 1
    num_processes: 8
    ```

    ## Why it happens
    The file of DeepSpeed came later, and the settings that it replaces were left.

    ## How we know
    Both stand in one file. `accelerate launch` ends with `When using deepspeed_config_file, the following accelerate
    config variables will be ignored`, as an error.

    ## What to do
    ```yaml
    compute_environment: LOCAL_MACHINE
    distributed_type: DEEPSPEED
    deepspeed_config:
      deepspeed_config_file: ds.json
    num_machines: 1
    num_processes: 8
    ```

    ## When this is wrong
    In versions of Accelerate of 2022 and before, which only ignored them.
    """
    for file in all_settings(seen, AccelerateConfig):
        if not file.text(PART, "deepspeed_config_file") or file.text("distributed_type") != "DEEPSPEED":
            continue
        names = [name for name in REFUSED if file.get(PART, name) is not None]
        if names:
            yield Found(
                title=f"{listing(names[:3])} stand here and in DeepSpeed's own file"
                if len(names) > 1
                else f"{names[0]} stands here and in DeepSpeed's own file",
                because="Accelerate refuses them beside deepspeed_config_file",
                evidence=(file.at(PART, names[0]), file.at(PART, "deepspeed_config_file")),
                fixes=(Fix(do="keep them in DeepSpeed's file alone"),),
            )
