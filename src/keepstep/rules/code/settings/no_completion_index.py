# SPDX-License-Identifier: Apache-2.0
"""COD422: a Job uses its completion index and is not indexed."""

from __future__ import annotations

from keepstep.model.facts import KubernetesObject
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._pods import pods


@rule(id="COD422", cause=Cause.CONFIG_MISSING_RANK_ENV, needs=(KubernetesObject,))
def no_completion_index(seen: EvidenceSet) -> Findings:
    """A Job uses JOB_COMPLETION_INDEX, which only an indexed Job has.

    ## What it looks like
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      completions: 2
      parallelism: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [sh, -c, "RANK=$JOB_COMPLETION_INDEX WORLD_SIZE=2 python train.py"]
    ```

    ## Why it happens
    A Job numbers its pods only with `completionMode: Indexed`. Else the variable is empty.

    ## How we know
    The variable, or the annotation it comes from, stands in the pod, and the Job is not indexed.

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
          containers:
            - name: main
              image: train:1
              command: [sh, -c, "RANK=$JOB_COMPLETION_INDEX WORLD_SIZE=2 python train.py"]
    ```

    ## When this is wrong
    When a patch adds the mode, or the program does without the variable.
    """
    for group in pods(seen):
        mode = group.file.text(*group.job, "completionMode")
        if group.kind not in ("Job", "CronJob") or mode not in ("", "NonIndexed"):
            continue
        for container in group.containers():
            place = container.says("JOB_COMPLETION_INDEX") or container.says("kubernetes.io/job-completion-index")
            own = place is not None and place[-1] == "name"  # the pod sets a variable of that name itself
            if place is not None and not own:
                yield Found(
                    title="the index of the pod is not set",
                    because="JOB_COMPLETION_INDEX is there only with completionMode: Indexed",
                    evidence=(group.file.at(*place), group.file.at(*group.job)),
                    fixes=(Fix(do="add to the Job's spec", code="completionMode: Indexed"),),
                )
                break
