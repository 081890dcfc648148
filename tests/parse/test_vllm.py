# SPDX-License-Identifier: Apache-2.0
"""vLLM inside of a trainer."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.environment import LibraryMissing
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.trainers import vllm as table

WORDINGS = [
    (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        DeviceMemoryExhausted,
        {},
    ),
    (
        "ValueError: Free memory on device (3.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).",
        DeviceMemoryExhausted,
        {"capacity": "3.2/79.1 GiB"},
    ),
    (
        "AssertionError: please set tensor_parallel_size (8) to less than max local gpu count (4)",
        WorldSizeConflict,
        {"expected": "8", "seen": "4"},
    ),
    (
        "ERROR 08-20 09:48:31 [pynccl_wrapper.py:229] Failed to load NCCL library from /opt/nccl/libnccl.so.2.21.5. It is "
        "expected if you are not running on NVIDIA/AMD GPUs.",
        LibraryMissing,
        {"name": "/opt/nccl/libnccl.so.2.21.5"},
    ),
    (
        "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp (/src/tensorrt_llm/runtime/worldConfig.cpp:89)",
        WorldSizeConflict,
        {"what": "processes that the engine was built for"},
    ),
    (
        "AssertionError: Engine world size (2) != Runtime world size (1)",
        WorldSizeConflict,
        {"expected": "2", "seen": "1"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "INFO gpu_executor.py:122] # GPU blocks: 27896, # CPU blocks: 2048",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
