# SPDX-License-Identifier: Apache-2.0
"""What a file of settings is, by what is in it. Most JSON and YAML is data or belongs to something else: nothing then."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config_files import (
    AccelerateConfig,
    ComposeFile,
    ConfigUnreadable,
    DeepSpeedConfig,
    KubernetesObject,
    LightningConfig,
)
from keepstep.parse.settings.shell import launch_script
from keepstep.parse.settings.tree import Document, TooMuch, Unreadable, from_json, from_yaml

JSON = (".json", ".hjson")
YAML = (".yaml", ".yml")
SHELL = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".sub")
SUFFIXES = (*JSON, *YAML, *SHELL)

_DEEPSPEED = re.compile(r'"(?:zero_optimization|train_micro_batch_size_per_gpu|train_batch_size)"\s*:')
_MAY_BE_YAML = re.compile(r"^\s*(?:distributed_type|apiVersion|services|trainer|_target_|devices|num_nodes)\s*:", re.M)
_TEMPLATE = re.compile(r"\{\{|\{%|<%|^\s*#@|\[\[\s*\.|^\s*<<<<<<<", re.M)
"""Helm, Jinja, ERB, ytt: no YAML until it is filled in."""
_BLANK = re.compile(r":\s*(?!true\b|false\b|null\b)[$<%@A-Za-z_][\w{}<>$%@-]*\s*(?:[,}\n]|$)")
"""A name where JSON has a value: something fills it in."""
_ACCELERATE = re.compile(r"^distributed_type\s*:", re.M)
_MANIFEST = re.compile(r"^kind\s*:\s*(?:Job|JobSet|PyTorchJob|TFJob|TrainJob)\s*$", re.M)
_OBJECTS = {"Job", "CronJob", "JobSet", "StatefulSet", "PyTorchJob", "TFJob", "TrainJob", "Service"}
_ACCELERATES = {"num_processes", "num_machines", "mixed_precision", "compute_environment", "main_training_function"}
_TRAINERS = {"max_epochs", "max_steps", "accelerator", "strategy", "precision", "devices", "num_nodes", "gpus"}
_DEEPSPEEDS = {"fp16", "bf16", "steps_per_print", "wall_clock_breakdown"}
"""What makes a batch size one of DeepSpeed's."""


def facts_of(text: str, suffix: str) -> Iterator[tuple[int, Fact]]:
    """What a file says, each with its line; nothing if it is none of the kinds."""
    try:
        if suffix in SHELL:
            script = launch_script(text)
            if script is not None:
                yield 1, script
        elif suffix in JSON:
            if _DEEPSPEED.search(text):
                yield from _json(text)
        elif _MAY_BE_YAML.search(text):
            yield from _yaml(text)
    except TooMuch:
        return


def _json(text: str) -> Iterator[tuple[int, Fact]]:
    try:
        found = from_json(text)
    except Unreadable as error:
        is_template = _TEMPLATE.search(text) or _BLANK.search(text)
        if len(text) < 50_000 and '"zero_optimization"' in text and not is_template:
            yield error.line, ConfigUnreadable(what="DeepSpeed", form="JSON", why=error.why)
        return
    keys = found.keys()
    if keys & {"train_micro_batch_size_per_gpu", "zero_optimization"} or (
        "train_batch_size" in keys and keys & _DEEPSPEEDS
    ):
        yield 1, DeepSpeedConfig(settings=tuple(found.settings), twice=tuple(found.twice))


def _yaml(text: str) -> Iterator[tuple[int, Fact]]:
    try:
        documents = list(from_yaml(text))
    except Unreadable as error:
        if not _TEMPLATE.search(text):
            what = "Accelerate" if _ACCELERATE.search(text) else "Kubernetes" if _MANIFEST.search(text) else ""
            if what:
                yield error.line, ConfigUnreadable(what=what, form="YAML", why=error.why)
        return
    for each in documents:
        fact = _document(each)
        if fact is not None:
            yield each.settings[0].line, fact


def _document(found: Document) -> Fact | None:
    if not found.is_map:
        return None
    keys, twice = found.keys(), tuple(found.twice)
    kind = found.get("kind")
    if "apiVersion" in keys and kind is not None:
        if kind.text not in _OBJECTS:
            return None
        name = found.get("metadata", "name")
        return KubernetesObject(
            settings=tuple(found.settings), twice=twice, object_kind=kind.text, name=name.text if name else ""
        )
    if "distributed_type" in keys and keys & _ACCELERATES:
        return AccelerateConfig(settings=tuple(found.settings), twice=twice)
    if "services" in keys and any({"image", "build"} & found.keys("services", each) for each in found.keys("services")):
        return ComposeFile(settings=tuple(found.settings), twice=twice)
    if len(found.keys("trainer") & _TRAINERS) > 1 and "devices" in found.keys("trainer"):
        return LightningConfig(settings=found.below("trainer"))
    target = found.get("_target_")
    if target is not None and target.text.endswith("Trainer") and "lightning" in target.text:
        return LightningConfig(settings=tuple(found.settings))
    return None
