# SPDX-License-Identifier: Apache-2.0
"""COD426: the container's shared memory stays at 64 MB."""

from __future__ import annotations

from keepstep.model.facts import ComposeFile, KubernetesObject
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.settings._pods import Pods, pods
from keepstep.rules.code.settings._settings import all_settings

_FEWEST = 2


@rule(
    id="COD426",
    cause=Cause.RESOURCE_SHM,
    needs=(KubernetesObject, ComposeFile),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def small_shared_memory(seen: EvidenceSet) -> Findings:
    """A container with several GPUs trains with PyTorch, and its /dev/shm has 64 MB.

    ## What it looks like
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [torchrun, --standalone, --nproc_per_node=8, train.py]
              resources: {limits: {nvidia.com/gpu: 8}}
    ```

    ## Why it happens
    Workers of a DataLoader hand their batches over in shared memory, and NCCL uses it between the GPUs of a host. A
    container gets 64 MB of it. They end with `Bus error` or `No space left on device`.

    ## How we know
    torchrun is started with two GPUs or more, and no volume is mounted at /dev/shm; in a compose file, `shm_size` and
    `ipc: host` are missing.

    ## What to do
    ```yaml
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [torchrun, --standalone, --nproc_per_node=8, train.py]
              resources: {limits: {nvidia.com/gpu: 8}}
              volumeMounts:
                - {name: shm, mountPath: /dev/shm}
          volumes:
            - {name: shm, emptyDir: {medium: Memory}}
    ```

    ## When this is wrong
    When batches are small, or the cluster gives its containers more.
    """
    fix = Fix(do="mount an emptyDir with `medium: Memory` at /dev/shm")
    for group in pods(seen):
        for container in group.containers():
            gpus = container.gpus
            if gpus is None or gpus[1] < _FEWEST or not container.is_torch or _has_shm(group, container.path):
                continue
            yield Found(
                title="64 MB of shared memory for several GPUs",
                because="nothing is mounted at /dev/shm, so data loaders and NCCL share what a container gets",
                evidence=(group.file.at(*gpus[0]),),
                fixes=(fix,),
            )
    for file in all_settings(seen, ComposeFile):
        for service in file.keys("services"):
            at = ("services", service)
            command = " ".join(each.text for each in file.below(*at, "command"))
            shared = file.get(*at, "shm_size") or file.text(*at, "ipc") or file.get(*at, "<<")
            if "torchrun" in command and not shared and not any("/dev/shm" in each.text for each in file.below(*at)):
                yield Found(
                    title=f"64 MB of shared memory for {service}",
                    because="shm_size is not set, so data loaders and NCCL share what a container gets",
                    evidence=(file.at(*at),),
                    fixes=(Fix(do="set `shm_size: 8gb`, or `ipc: host`"),),
                )


def _has_shm(group: Pods, container: tuple[str, ...]) -> bool:
    at = (*container, "volumeMounts")
    mounts = (group.file.text(*at, number, "mountPath") for number in group.file.keys(*at))
    return any(each.startswith("/dev/shm") for each in mounts) or group.file.is_on(*group.spec, "hostIPC")
