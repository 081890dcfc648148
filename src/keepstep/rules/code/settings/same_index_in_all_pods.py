# SPDX-License-Identifier: Apache-2.0
"""COD421: all pods, or two services, have the same index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from keepstep.model.facts import ComposeFile, KubernetesObject
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._pods import Container, pods
from keepstep.rules.code.settings._settings import Settings, all_settings

INDEX = ("RANK", "NODE_RANK", "GROUP_RANK", "MACHINE_RANK", "PROCESS_ID", "JAX_PROCESS_ID", "SLURM_PROCID")
_PAIR = re.compile(r"(\w+)=(.*)")


@rule(
    id="COD421", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(KubernetesObject, ComposeFile), confidence=Confidence.SUPPORTED
)
def same_index_in_all_pods(seen: EvidenceSet) -> Findings:
    """Pods of one template, or services beside each other, are all given the same rank.

    ## What it looks like
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completionMode: Indexed
      completions: 4
      parallelism: 4
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [python, train.py]
              env:
                - {name: WORLD_SIZE, value: "4"}
                - {name: RANK, value: "0"}
    ```

    ## Why it happens
    All pods are made from one template, so a constant in it is the same in all of them.

    ## How we know
    The index, or a TF_CONFIG with one, is written out, and the template makes several pods; or two services of a
    compose file have the same index and the same meeting point.

    ## What to do
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completionMode: Indexed
      completions: 4
      parallelism: 4
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [sh, -c, "RANK=$JOB_COMPLETION_INDEX python train.py"]
              env:
                - {name: WORLD_SIZE, value: "4"}
    ```

    ## When this is wrong
    When the program replaces the variable at its start.
    """
    for group in pods(seen):
        if group.kind in ("PyTorchJob", "TFJob", "TrainJob") or (group.count or 1) < 2:
            continue  # the operator gives each pod its own
        for container in group.containers():
            place = container.env(*INDEX) or _option(container) or _task(container)
            if place is not None:
                yield Found(
                    title=f"all {group.count} pods have the same index",
                    because="they are made from one template, and the index in it is a constant",
                    evidence=(group.file.at(*place), group.file.at(*group.count_path)),
                    fixes=(Fix(do="take it from $JOB_COMPLETION_INDEX, with completionMode: Indexed"),),
                )
    for file in all_settings(seen, ComposeFile):
        yield from _services(file)


def _option(container: Container) -> tuple[str, ...] | None:
    """A constant ``--node_rank`` of a command for several nodes."""
    rank, nodes = container.option("node_rank"), container.option("nnodes")
    return rank[0] if rank is not None and nodes is not None and nodes[1] > 1 else None


def _task(container: Container) -> tuple[str, ...] | None:
    """A TF_CONFIG for several tasks that is written out: it names one of them."""
    place = container.env("TF_CONFIG")
    try:
        found = json.loads(container.file.text(*place)) if place is not None else {}
        tasks = [address for addresses in found["cluster"].values() for address in addresses]
        return place if len(tasks) > 1 and isinstance(found["task"]["index"], int | str) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _services(file: Settings) -> Iterator[Found]:
    known: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for service in file.keys("services"):
        env = dict(_environment(file, service))
        world = env.get("WORLD_SIZE") or env.get("NNODES")
        index = next((env[name] for name in INDEX if name in env), None)
        if index is None or world is None or "MASTER_ADDR" not in env or file.get("services", service, "profiles"):
            continue
        texts = [text for text, _ in (index, world, env["MASTER_ADDR"])]
        if any("$" in text for text in texts) or not texts[1].isdecimal() or int(texts[1]) < 2:
            continue
        key = (texts[0], texts[1], texts[2])
        if key in known:
            yield Found(
                title=f"two services have the index {texts[0]}",
                because=f"both meet at {texts[2]}, where each index is expected once",
                evidence=(file.at(*index[1]), file.at(*known[key])),
                fixes=(Fix(do="give each service an index of its own, from 0"),),
            )
        known.setdefault(key, index[1])


def _environment(file: Settings, service: str) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """The variables of a service, written as a map or as a list, with their places."""
    at = ("services", service, "environment")
    for key in file.keys(*at):
        text = file.text(*at, key)
        pair = _PAIR.fullmatch(text) if key.isdecimal() else None
        if pair is not None:
            yield pair[1], (pair[2], (*at, key))
        elif not key.isdecimal():
            yield key, (text, (*at, key))
