# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import ConnectFailed
from keepstep.core.facts.process import FatalSignal, ProcessExited, TerminationRequested
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.trainers import paddle as table

WORDINGS = [
    (
        "ERROR 2022-11-02 08:42:32,186 launch_utils.py:604] ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted. Please check its log.",
        ProcessExited,
        {"rank": 3, "first": True},
    ),
    (
        "ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 2] was aborted. Please check its log.",
        ProcessExited,
        {"rank": 2, "first": False},
    ),
    (
        "FatalError: `Segmentation fault` is detected by the operating system.",
        FatalSignal,
        {"signal": "SIGSEGV"},
    ),
    (
        "FatalError: `Termination signal` is detected by the operating system.",
        TerminationRequested,
        {"signal": "SIGTERM"},
    ),
    (
        "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.5GB memory on GPU 0, 10GB memory has been allocated",
        DeviceMemoryExhausted,
        {"device": "0"},
    ),
    (
        "Socket connect worker 127.0.0.1:52199 failed, try again after 3 seconds.",
        ConnectFailed,
        {"final": False},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "INFO launch_utils.py:341] terminate all the procs",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
