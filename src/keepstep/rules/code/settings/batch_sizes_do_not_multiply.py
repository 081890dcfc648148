# SPDX-License-Identifier: Apache-2.0
"""COD403: DeepSpeed's batch sizes do not multiply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import AccelerateConfig, DeepSpeedConfig
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import started
from keepstep.rules.code.settings._settings import Settings, all_settings, named

WHOLE, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_World = tuple[int, Evidence[Any]]


@rule(id="COD403", cause=Cause.DATA_BATCH_NOT_DIVISIBLE, needs=(DeepSpeedConfig,))
def batch_sizes_do_not_multiply(seen: EvidenceSet) -> Findings:
    """DeepSpeed's train_batch_size is not micro batch x accumulation steps x ranks, whatever the number of ranks.

    ## What it looks like
    ```json
    {
      "train_batch_size": 100,
      "train_micro_batch_size_per_gpu": 8,
      "gradient_accumulation_steps": 4,
      "zero_optimization": {"stage": 1}
    }
    ```

    ## Why it happens
    One of the three was changed and the others were not, or the file was written for another number of GPUs.

    ## How we know
    The numbers in the file leave a remainder, so no number of ranks fits. Where a script or Accelerate's settings
    name the file and write out the number of ranks, that is taken, too.

    ## What to do
    ```json
    {
      "train_micro_batch_size_per_gpu": 8,
      "gradient_accumulation_steps": 4,
      "zero_optimization": {"stage": 1}
    }
    ```

    ## When this is wrong
    The program replaces the numbers before DeepSpeed reads them.
    """
    files = all_settings(seen, DeepSpeedConfig)
    worlds = _worlds(seen, files)
    for file in files:
        whole, micro, steps = file.number(WHOLE), file.number(MICRO), file.number(STEPS)
        known = [number for number in (micro, steps) if number is not None]
        if whole is None or not known or file.is_on("elasticity", "enabled") or file.is_on("autotuning", "enabled"):
            continue
        each = 1
        for number in known:
            each *= number
        product = " x ".join(str(number) for number in known)
        fixes = (Fix(do=f"leave {WHOLE} out: DeepSpeed multiplies it from the others"),)
        if whole % each:
            yield Found(
                title=f"{WHOLE} {whole} is no multiple of {product}",
                because=f"DeepSpeed demands that {whole} is {product} x ranks; no number of ranks makes that true",
                evidence=(file.at(WHOLE), file.at(MICRO if micro else STEPS)),
                fixes=fixes,
            )
        elif (world := worlds.get(file.source)) is not None and len(known) == 2 and world[0] % (whole // each):
            yield Found(
                title=f"{WHOLE} {whole} is not {product} x {world[0]} ranks",
                because=f"{product} x {world[0]} is {each * world[0]}, and DeepSpeed refuses what does not multiply",
                evidence=(file.at(WHOLE), world[1]),
                fixes=fixes,
            )


def _worlds(seen: EvidenceSet, files: list[Settings]) -> dict[str, _World]:
    """By file of DeepSpeed's settings: how many ranks it is used with, if all who name it agree."""
    found: dict[str, list[_World]] = {}
    for file, world in (*_of_accelerate(seen, files), *_of_scripts(seen, files)):
        found.setdefault(file, []).append(world)
    return {file: some[0] for file, some in found.items() if len({number for number, _ in some}) == 1}


def _of_accelerate(seen: EvidenceSet, files: list[Settings]) -> Iterator[tuple[str, _World]]:
    for each in all_settings(seen, AccelerateConfig):
        file = named(files, each.text("deepspeed_config", "deepspeed_config_file"), each.source)
        ranks = each.number("num_processes")
        if file is not None and ranks is not None:
            yield file.source, (ranks, each.at("num_processes"))


def _of_scripts(seen: EvidenceSet, files: list[Settings]) -> Iterator[tuple[str, _World]]:
    for each in started(seen, "deepspeed", "torchrun", "accelerate", "python"):
        given = [word for argument in each.command.arguments for word in argument.split("=")]
        given += [option.value or "" for option in each.command.options if option.literal]
        near = each.script.origin.source
        named_here = {file.source for word in given if (file := _named(files, word, near)) is not None}
        ranks = each.ranks
        if each.command.program == "python" and ranks == 1:
            continue  # it may well be no training
        if len(named_here) == 1 and ranks:
            yield named_here.pop(), (ranks, each.place)


def _named(files: list[Settings], word: str, near: str) -> Settings | None:
    return named(files, word, near) if word.endswith(".json") else None
