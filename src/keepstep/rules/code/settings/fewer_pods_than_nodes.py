# SPDX-License-Identifier: Apache-2.0
"""COD423: a manifest runs fewer pods at once than its launcher waits for."""

from __future__ import annotations

from keepstep.model.facts import KubernetesObject
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, count, rule
from keepstep.rules.code.settings._pods import Pods, pods
from keepstep.rules.code.settings._settings import Settings


@rule(id="COD423", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(KubernetesObject,), confidence=Confidence.SUPPORTED)
def fewer_pods_than_nodes(seen: EvidenceSet) -> Findings:
    """The pods of a manifest wait for more nodes than run at once.

    ## What it looks like
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completionMode: Indexed
      completions: 4
      parallelism: 2
      template:
        spec:
          restartPolicy: Never
          subdomain: train
          containers:
            - name: main
              image: train:1
              command: [torchrun, --nnodes=4, --rdzv_backend=c10d, --rdzv_endpoint=train-0.train:29500, train.py]
    ```

    ## Why it happens
    `completions` says how many pods have to succeed in the end, `parallelism` how many run at the same time. A
    training needs all of them at the same time.

    ## How we know
    The command waits for a number of nodes that is written out (`--nnodes`). An indexed Job runs fewer pods at once,
    or a PyTorchJob or TrainJob has another number of replicas.

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
          subdomain: train
          containers:
            - name: main
              image: train:1
              command: [torchrun, --nnodes=4, --rdzv_backend=c10d, --rdzv_endpoint=train-0.train:29500, train.py]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: train}
    spec:
      clusterIP: None
      selector: {job-name: train}
    ```

    ## When this is wrong
    When other manifests run the rest of the nodes.
    """
    groups: dict[int, tuple[Settings, list[Pods]]] = {}
    for group in pods(seen):
        groups.setdefault(id(group.file), (group.file, []))[1].append(group)
    for file, every in groups.values():
        if every[0].kind == "Job" and file.text(*every[0].job, "completionMode") != "Indexed":
            continue
        if every[0].kind not in ("Job", "PyTorchJob", "TrainJob") or any(each.count is None for each in every):
            continue
        if file.get("spec", "elasticPolicy") is not None:
            continue  # the number of pods changes
        there = sum(each.count or 0 for each in every)
        for container in (one for each in every for one in each.containers()):
            asked = container.option("nnodes")
            if asked is None or not container.is_torch:
                continue
            differs = 1 < there < asked[1] if every[0].kind == "Job" else asked[1] != there
            if differs:
                yield Found(
                    title=f"the launcher waits for {count(asked[1], 'node')}, and {count(there, 'pod')} run at once",
                    because="those that run wait for the others, which do not come",
                    evidence=(file.at(*asked[0]), file.at(*every[-1].count_path)),
                    fixes=(Fix(do=f"run {asked[1]} pods at once, or set --nnodes to {there}"),),
                )
                break
