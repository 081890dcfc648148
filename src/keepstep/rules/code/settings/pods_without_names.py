# SPDX-License-Identifier: Apache-2.0
"""COD424: the pods of a Job are called by names that nothing makes."""

from __future__ import annotations

import re

from keepstep.model.facts import KubernetesObject
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._pods import pods
from keepstep.rules.code.settings._settings import all_settings


@rule(id="COD424", cause=Cause.NETWORK_DNS, needs=(KubernetesObject,), confidence=Confidence.SUPPORTED)
def pods_without_names(seen: EvidenceSet) -> Findings:
    """A Job's pods meet at `JOB-0.SERVICE`, and the pods have no subdomain, or the service is not headless.

    ## What it looks like
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completionMode: Indexed
      completions: 2
      parallelism: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [python, train.py]
              env:
                - {name: MASTER_ADDR, value: train-0.train}
    ```

    ## Why it happens
    Kubernetes makes the name of a pod only where its `subdomain` is the name of a headless service
    (`clusterIP: None`).

    ## How we know
    The name stands in the pod. The pod has no `subdomain`; or the service of that name, beside the Job, is not
    headless, or is not there.

    ## What to do
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completionMode: Indexed
      completions: 2
      parallelism: 2
      template:
        spec:
          restartPolicy: Never
          subdomain: train
          containers:
            - name: main
              image: train:1
              command: [python, train.py]
              env:
                - {name: MASTER_ADDR, value: train-0.train}
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: train}
    spec:
      clusterIP: None
      selector: {job-name: train}
    ```

    ## When this is wrong
    When a patch or another file adds what is missing.
    """
    objects = all_settings(seen, KubernetesObject)
    for group in pods(seen):
        job = group.file.evidence.fact.name
        if group.kind != "Job" or not job or "{" in job:
            continue
        called = re.compile(rf"(?<![\w.-]){re.escape(job)}-0\.([a-z][\w-]*)")
        found = [(each.path, match[1]) for each in group.file.below(*group.spec) if (match := called.search(each.text))]
        if not found or group.file.get(*group.spec, "hostname"):
            continue
        path, name = found[0]
        subdomain = group.file.text(*group.spec, "subdomain")
        near = [each for each in objects if each.source.rpartition("/")[0] == group.file.source.rpartition("/")[0]]
        services = [each for each in near if each.text("kind") == "Service" and each.text("metadata", "name") == name]
        headless = any(each.text("spec", "clusterIP") == "None" for each in services)
        if subdomain == name and headless:
            continue
        because = (
            f"the pod has no subdomain {name}"
            if subdomain != name
            else f"the service {name} is not headless"
            if services
            else f"no headless service {name} stands beside the Job"
        )
        yield Found(
            title=f"{job}-0.{name} is a name that nothing makes",
            because=f"{because}, so the name cannot be resolved and no rank finds the first one",
            evidence=(group.file.at(*path), *(each.at("spec") for each in services[:1])),
            fixes=(Fix(do=f"set `subdomain: {name}` in the pod, and add a service {name} with `clusterIP: None`"),),
        )
