# SPDX-License-Identifier: Apache-2.0
"""Containers that could not be started."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing
from keepstep.core.facts.network import PortTaken
from keepstep.core.facts.platform import DeviceFault
from keepstep.parse.tools.kubernetes import container_runtimes
from tests.parse.reading import reader

read = reader(container_runtimes)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("docker: Error response from daemon: Unknown runtime specified nvidia.", CudaMismatch),
        ("docker: Error response from daemon: unknown or invalid runtime name: nvidia.", CudaMismatch),
        (
            "docker: Error response from daemon: pull access denied for my/train, repository does not exist",
            ClusterSpecInvalid,
        ),
        (
            'container "pytorch" in pod "job-worker-0" is waiting to start: trying and failing to pull image',
            ClusterSpecInvalid,
        ),
        ("on endpoint x: Bind for 0.0.0.0:29500 failed: port is already allocated.", PortTaken),
        ('FATAL:   "torchrun": executable file not found in $PATH', LibraryMissing),
        (
            "FATAL:   while checking container encryption: could not open image /images/x.sif: failed to retrieve path",
            ClusterSpecInvalid,
        ),
        (
            "Update plugin resources failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
            DeviceFault,
        ),
    ],
)
def test_a_container_that_did_not_start_is_read(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    ["FATAL: kernel too old", "docker pull my/train:1", "[ERROR] Failed to create a figure", "Unknown runtime error"],
)
def test_other_words_are_none(text: str) -> None:
    assert read(text) == []
