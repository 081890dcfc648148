# SPDX-License-Identifier: Apache-2.0
"""COD404: DeepSpeed offloads nothing, because the ZeRO stage is too low for it."""

from __future__ import annotations

from keepstep.model.facts import DeepSpeedConfig
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.settings._settings import all_settings

ZERO = "zero_optimization"
_FROM = {"offload_param": 3, "offload_optimizer": 1}
_WHAT = {"offload_param": "parameters", "offload_optimizer": "the optimizer's state"}


@rule(id="COD404", cause=Cause.RESOURCE_GPU_OOM, needs=(DeepSpeedConfig,), severity=Severity.WARNING)
def offload_without_effect(seen: EvidenceSet) -> Findings:
    """The settings of DeepSpeed ask for offloading, and the ZeRO stage is one that cannot.

    ## What it looks like
    ```json
    {
      "train_micro_batch_size_per_gpu": 1,
      "zero_optimization": {
        "stage": 2,
        "offload_param": {"device": "cpu"}
      }
    }
    ```

    ## Why it happens
    The stage was lowered, or the block was copied from a file of stage 3. Only stage 3 divides parameters, so only
    there can they be offloaded; stage 0 divides nothing. The rest is ignored without a word.

    ## How we know
    The stage is written out, and `device` is one to offload to.

    ## What to do
    ```json
    {
      "train_micro_batch_size_per_gpu": 1,
      "zero_optimization": {
        "stage": 3,
        "offload_param": {"device": "cpu"}
      }
    }
    ```

    ## When this is wrong
    The program sets the stage itself, or DeepSpeed's inference reads the file.
    """
    for file in all_settings(seen, DeepSpeedConfig):
        stage = file.text(ZERO, "stage")
        for name, least in _FROM.items():
            if stage.isdecimal() and int(stage) < least and file.text(ZERO, name, "device") in ("cpu", "nvme"):
                yield Found(
                    title=f"{name} has no effect in ZeRO stage {stage}",
                    because=f"{_WHAT[name]} can be offloaded from stage {least} on; they stay on the GPU here",
                    evidence=(file.at(ZERO, name), file.at(ZERO, "stage")),
                    fixes=(Fix(do=f"use stage {least}, or leave {name} out"),),
                )
