# SPDX-License-Identifier: Apache-2.0
"""COD402: fp16 and bf16 are both on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import AccelerateConfig, CodeCall, DeepSpeedConfig
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import program
from keepstep.rules.code.settings._settings import Settings, all_settings, named

_OTHER = {"fp16": "bf16", "bf16": "fp16"}


@rule(id="COD402", cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION, needs=(DeepSpeedConfig,))
def two_precisions(seen: EvidenceSet) -> Findings:
    """The settings of DeepSpeed ask for fp16 and for bf16.

    ## What it looks like
    ```json
    {
      "train_micro_batch_size_per_gpu": 4,
      "fp16": {"enabled": true},
      "bf16": {"enabled": true}
    }
    ```

    ## Why it happens
    One was switched on for a newer GPU, and the other was not switched off; or the program or Accelerate's settings
    name one, and DeepSpeed's file the other.

    ## How we know
    Both are on in one file. Or `TrainingArguments(fp16=True, deepspeed="ds.json")`, or Accelerate's `mixed_precision`
    beside `deepspeed_config_file`, name a file in which the other one is on. All three readers refuse it.

    ## What to do
    ```json
    {
      "train_micro_batch_size_per_gpu": 4,
      "fp16": {"enabled": false},
      "bf16": {"enabled": true}
    }
    ```

    ## When this is wrong
    The program changes the settings after it has read them.
    """
    files = all_settings(seen, DeepSpeedConfig)
    for file in files:
        if file.is_on("fp16", "enabled") and any(file.is_on(name, "enabled") for name in ("bf16", "bfloat16")):
            other = "bf16" if file.get("bf16", "enabled") else "bfloat16"
            yield Found(
                title="fp16 and bf16 are both on",
                because="DeepSpeed refuses to start with both",
                evidence=(file.at(other, "enabled"), file.at("fp16", "enabled")),
                fixes=(Fix(do="switch one of them off: bf16 needs no loss scaling, fp16 works on older GPUs"),),
            )
    for wanted, place, file, who in (*_by_accelerate(seen, files), *_by_code(seen, files)):
        if file.is_on(_OTHER[wanted], "enabled"):
            yield Found(
                title=f"{wanted} is asked for here, and {_OTHER[wanted]} in {file.source.rpartition('/')[2]}",
                because=f"{who} refuses settings of DeepSpeed that differ from its own",
                evidence=(place, file.at(_OTHER[wanted], "enabled")),
                fixes=(Fix(do="ask for the same precision in both, or write `auto` in DeepSpeed's file"),),
            )


_Asked = tuple[str, Evidence[Any], Settings, str]


def _by_accelerate(seen: EvidenceSet, files: list[Settings]) -> Iterator[_Asked]:
    for each in all_settings(seen, AccelerateConfig):
        wanted = each.text("mixed_precision")
        file = named(files, each.text("deepspeed_config", "deepspeed_config_file"), each.source)
        if wanted in _OTHER and file is not None:
            yield wanted, each.at("mixed_precision"), file, "Accelerate"


def _by_code(seen: EvidenceSet, files: list[Settings]) -> Iterator[_Asked]:
    if not seen.has(CodeCall):
        return
    for call in program(seen).methods("TrainingArguments", "Seq2SeqTrainingArguments"):
        path = call.fact.argument("deepspeed")
        file = named(files, (path.literal or "").strip("'\""), call.origin.source) if path is not None else None
        for wanted in _OTHER:
            given = call.fact.argument(wanted)
            if file is not None and given is not None and given.literal == "True":
                yield wanted, call, file, "Transformers"
