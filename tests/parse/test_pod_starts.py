# SPDX-License-Identifier: Apache-2.0
"""Pods that Kubernetes does not start."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.environment import LibraryMissing
from keepstep.core.facts.platform import Preempted
from keepstep.parse.tools.kubernetes import pod_starts
from tests.parse.reading import reader

read = reader(pod_starts)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "FailedScheduling  0/8 nodes are available: 8 node(s) didn't match Pod's node affinity/selector.",
            ClusterSpecInvalid,
        ),
        ("0/3 nodes are available: 3 node(s) had untolerated taint {nvidia.com/gpu: present}.", ClusterSpecInvalid),
        ('Failed to pull image "registry/x:1": rpc error: code = Unknown desc = not found', ClusterSpecInvalid),
        ("Warning  Failed  kubelet  Error: ImagePullBackOff", ClusterSpecInvalid),
        (
            "Warning  FailedCreatePodSandBox  kubelet  Failed to create pod sandbox: rpc error: code = Unknown",
            ClusterSpecInvalid,
        ),
        (
            'Warning  FailedMount  kubelet  MountVolume.SetUp failed for volume "data" : mount failed',
            ClusterSpecInvalid,
        ),
        ('OCI runtime create failed: exec: "torchrun": executable file not found in $PATH: unknown', LibraryMissing),
        ("Warning  Preempted  by default/other-pod on node n3", Preempted),
        ("Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue", Preempted),
        ("Job was active longer than specified deadline", Preempted),
    ],
)
def test_a_message_is_a_fact(line, kind):
    (fact,) = read(line)
    assert isinstance(fact, kind)


@pytest.mark.parametrize(
    "line",
    [
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had taint {a: b}",
        'Successfully pulled image "registry/x:1" in 2.1s',
        "Pulling image",
    ],
)
def test_ordinary_events_say_nothing(line):
    assert read(line) == []
