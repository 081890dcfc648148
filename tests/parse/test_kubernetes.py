# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes and Docker say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import NotScheduled
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import MachineFault, Preempted
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import DiskFull, OomKilled
from keepstep.parse.tools.kubernetes import pods as table

WORDINGS = [
    ("      Reason:       OOMKilled", OomKilled, {}),
    ("The node was low on resource: memory. Container pytorch was using 12Gi, request is 0.", OomKilled, {}),
    ("The node was low on resource: ephemeral-storage.", DiskFull, {}),
    ("Warning  NodeNotReady  pod/worker-1  Node is not ready", MachineFault, {}),
    ("Preempted by pod 5c1e on node gpu-3", Preempted, {}),
    ("      Exit Code:    137", ProcessExited, {"code": 137}),
    ("reason: 'ExitedWithCode' Pod: training.job-2-worker-3 exited with code 1", ProcessExited, {"code": 1, "rank": 3}),
    ("reason: 'ExitedWithCode' Pod: training.job-2-ps-3 exited with code 1", ProcessExited, {"code": 1, "rank": None}),
    (
        "Warning FailedScheduling No nodes are available that match all of the following predicates:: Insufficient"
        " alpha.kubernetes.io/nvidia-gpu (3).",
        NotScheduled,
        {"asked": "Insufficient alpha.kubernetes.io/nvidia-gpu"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "      Exit Code:    0",
        "      Reason:       Completed",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "nvidia-docker | 2016/08/22 12:54:02 Error: unsupported CUDA version: driver 7.5 < image 8.0",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "Failed. Reason: AlgorithmError: , exit code: 137",
        ProcessExited,
        {"code": 137},
    ),
    (
        "command terminated with exit code 137",
        ProcessExited,
        {"code": 137},
    ),
    (
        "Warning  Evicted  109s  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 5Gi.",
        DiskFull,
        {},
    ),
    (
        "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
        NotScheduled,
        {"never": False},
    ),
    (
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        CudaMismatch,
        {},
    ),
    (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=11.7",
        CudaMismatch,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
