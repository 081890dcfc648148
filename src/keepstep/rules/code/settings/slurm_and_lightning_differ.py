# SPDX-License-Identifier: Apache-2.0
"""COD418: Slurm's tasks or nodes are not those of Lightning's Trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import LaunchScript, LightningConfig
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import Started, started
from keepstep.rules.code.settings._settings import Settings, all_settings, named

_GIVEN = re.compile(r"(?:--|\+{0,2})trainer\.(devices|num_nodes)(?:=(.*))?")
_CONFIG = re.compile(r"(?:--config(?:-name)?|-c|-cn)(?:=(.*))?")


@rule(id="COD418", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def slurm_and_lightning_differ(seen: EvidenceSet) -> Findings:
    """srun starts another number of tasks than Lightning's Trainer has devices.

    ## What it looks like
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py trainer.devices=8 trainer.num_nodes=2
    ```

    ## Why it happens
    `devices` is taken for the number of all GPUs. It is that of one node, and Slurm has to start as many tasks there.

    ## How we know
    All numbers are written out: in the script, on its command line, or in the YAML file that the command line names.
    Lightning compares them, and refuses to start.

    ## What to do
    ```sh
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py trainer.devices=4 trainer.num_nodes=2
    ```

    ## When this is wrong
    When the `trainer` of the program is not Lightning's.
    """
    files = all_settings(seen, LightningConfig)
    for each in started(seen, "python"):
        if not each.of_srun:
            continue
        for name, there in (("devices", each.tasks_per_node), ("num_nodes", each.nodes)):
            given = _given(each, name, files)
            if there is None or given is None or given[0] == there or (name == "devices" and there == 1):
                continue
            what = "tasks on each node" if name == "devices" else "nodes"
            yield Found(
                title=f"Slurm has {there} {what}, and trainer.{name} is {given[0]}",
                because="Lightning under Slurm expects one task for each device and refuses other numbers",
                evidence=(each.place, *given[1]),
                fixes=(Fix(do=f"set trainer.{name} to {there}, or change the script's {what}"),),
            )


def _given(each: Started, name: str, files: list[Settings]) -> tuple[int, tuple[Evidence[Any], ...]] | None:
    """The number on the command line, or else in the file that it names."""
    values = [value for key, value in _pairs(each, _GIVEN) if key == name]
    if values:
        return (int(values[-1]), ()) if values[-1].isdecimal() else None
    for _, value in _pairs(each, _CONFIG):
        file = named(files, value if "." in value else f"{value}.yaml", each.script.origin.source)
        number = file.number(name) if file is not None else None
        if file is not None and number is not None:
            return number, (file.at(name),)
    return None


def _pairs(each: Started, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    words = each.command.arguments
    for word, following in zip(words, (*words[1:], ""), strict=False):
        found = pattern.fullmatch(word)
        if found is not None:
            yield found[1] or "", found[found.re.groups] if found[found.re.groups] is not None else following
