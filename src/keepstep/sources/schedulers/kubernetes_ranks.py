# SPDX-License-Identifier: Apache-2.0
"""Which pod is which rank, from what controllers write on pods: labels, annotations, environment, names.

A pod that runs several processes (torchrun on eight GPUs) is a node, not a rank: it gets none, and the prefixes in its
log distinguish its ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole

Pod = Mapping[str, Any]

_INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
)
_JOB_INDEX = ("jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index")
_ROLE_LABELS = ("training.kubeflow.org/replica-type", "replica-type", "tf-replica-type", "pytorch-replica-type")
_PLACE_LABELS = ("training.kubeflow.org/replica-index", "replica-index", "tf-replica-index", "pytorch-replica-index")
_ROLES = ("chief", "master", "worker", "ps", "evaluator")
_SEVERAL = lazy_pattern(r"--nproc[-_]per[-_]node[= ](\w+)")


def ranks_of(pods: Sequence[Pod]) -> dict[str, int]:
    """The rank of each pod whose rank is known, by pod name."""
    single = [pod for pod in pods if not _runs_several(pod)]
    if len(single) < len(pods) or any(_role(pod) == "launcher" for pod in pods):
        return {}
    for numbering in (_by_environment, _by_index, _by_role):
        found = numbering(pods)
        if found and len(set(found.values())) == len(found):
            return found
    return {}


def env_of(pod: Pod) -> dict[str, str]:
    """The literal environment of a pod's first container."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    listed = containers[0].get("env") or () if containers else ()
    return {e["name"]: str(e["value"]) for e in listed if "name" in e and e.get("value") is not None}


def _by_environment(pods: Sequence[Pod]) -> dict[str, int]:
    said = {_name(pod): env_of(pod).get("RANK", "") for pod in pods}
    return (
        {name: int(value) for name, value in said.items()} if all(whole(v) is not None for v in said.values()) else {}
    )


def _by_index(pods: Sequence[Pod]) -> dict[str, int]:
    """Completion indices; a JobSet's jobs follow each other, each with its own indices."""
    places = []
    for pod in pods:
        index = _first(pod, _INDEX_LABELS)
        if index is None:
            return {}
        places.append((_first(pod, _JOB_INDEX) or 0, index, _name(pod)))
    if len({job for job, _, _ in places}) == 1:
        return {name: index for _, index, name in places}
    return {name: number for number, (_, _, name) in enumerate(sorted(places))}


def _by_role(pods: Sequence[Pod]) -> dict[str, int]:
    """Kubeflow's replica types, counted as the frameworks do: chief or master, workers, then the others."""
    places = {_name(pod): (_role(pod), _first(pod, _PLACE_LABELS)) for pod in pods}
    if any(role not in _ROLES or index is None for role, index in places.values()):
        return {}
    sizes = {role: 1 + max((i or 0 for r, i in places.values() if r == role), default=-1) for role in _ROLES}
    begins = {role: sum(sizes[r] for r in _ROLES[: _ROLES.index(role)]) for role in _ROLES}
    return {name: begins[role] + index for name, (role, index) in places.items() if index is not None}


def _runs_several(pod: Pod) -> bool:
    for container in (pod.get("spec") or {}).get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        several_gpus = any(k.endswith("/gpu") and str(v) not in ("0", "1") for k, v in limits.items())
        if several_gpus and "TF_CONFIG" not in env_of(pod):  # TensorFlow drives all GPUs of a host from one process
            return True
        words = " ".join(str(w) for w in (*(container.get("command") or ()), *(container.get("args") or ())))
        said = _SEVERAL.search(words)
        if said and said[1] != "1":
            return True
    return env_of(pod).get("PET_NPROC_PER_NODE", "1") != "1"


def _role(pod: Pod) -> str:
    return next((labels[key].lower() for key in _ROLE_LABELS if key in (labels := _labels(pod))), "")


def _first(pod: Pod, keys: Sequence[str]) -> int | None:
    labels = _labels(pod)
    return next((number for key in keys if (number := whole(labels.get(key))) is not None), None)


def _labels(pod: Pod) -> dict[str, str]:
    metadata = pod.get("metadata") or {}
    both = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return {str(k): str(v) for k, v in both.items()}


def _name(pod: Pod) -> str:
    return str((pod.get("metadata") or {}).get("name") or "")
