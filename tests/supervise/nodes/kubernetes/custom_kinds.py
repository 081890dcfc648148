# SPDX-License-Identifier: Apache-2.0
"""What the manifests may say about kinds that Kubernetes does not have itself: the fields in use, and their types.

Written by hand from the fields that the projects document (JobSet v1alpha2, Kubeflow Trainer v1alpha1, KubeRay v1). A
field that is not here is an error, so a new one is looked up first; `tools.published_crds` validates the manifests
against the projects' own CRDs. Templates of Jobs and pods are Kubernetes' own, and are validated as such.
"""

from __future__ import annotations

from typing import Any

TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
WORDS = {"type": "array", "items": TEXT}
TEXTS = {"type": "object", "additionalProperties": TEXT}
TEMPLATE = {"type": "object"}
"""Validated on its own."""


def fields(*needed: str, **known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, "required": list(needed), "additionalProperties": False}


def several(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


def kind(spec: dict[str, Any]) -> dict[str, Any]:
    return fields("spec", apiVersion=TEXT, kind=TEXT, metadata=fields("name", name=TEXT, labels=TEXTS), spec=spec)


JOB_SET = fields(
    "replicatedJobs",
    network=fields(enableDNSHostnames=FLAG, publishNotReadyAddresses=FLAG, subdomain=TEXT),
    failurePolicy=fields(maxRestarts=COUNT),
    replicatedJobs=several(fields("name", "template", name=TEXT, replicas=COUNT, template=TEMPLATE)),
)
RESOURCES = fields(limits=TEXTS, requests=TEXTS)
RAY_GROUP = {"rayStartParams": TEXTS, "template": TEMPLATE}
KINDS: dict[tuple[str, str], dict[str, Any]] = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): kind(JOB_SET),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): kind(
        fields("template", mlPolicy=fields(numNodes=COUNT, torch=fields()), template=fields("spec", spec=JOB_SET))
    ),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): kind(
        fields(
            "runtimeRef",
            runtimeRef=fields("name", apiGroup=TEXT, kind=TEXT, name=TEXT),
            trainer=fields(
                numNodes=COUNT, numProcPerNode=COUNT, command=WORDS, args=WORDS, image=TEXT, resourcesPerNode=RESOURCES
            ),
        )
    ),
    ("ray.io/v1", "RayJob"): kind(
        fields(
            "entrypoint",
            entrypoint=TEXT,
            submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
            backoffLimit=COUNT,
            shutdownAfterJobFinishes=FLAG,
            ttlSecondsAfterFinished=COUNT,
            rayClusterSpec=fields(
                "headGroupSpec",
                rayVersion=TEXT,
                headGroupSpec=fields("template", **RAY_GROUP),
                workerGroupSpecs=several(
                    fields(
                        "groupName",
                        "template",
                        groupName=TEXT,
                        replicas=COUNT,
                        minReplicas=COUNT,
                        maxReplicas=COUNT,
                        **RAY_GROUP,
                    )
                ),
            ),
        )
    ),
}
