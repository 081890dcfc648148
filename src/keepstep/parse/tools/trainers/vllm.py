# SPDX-License-Identifier: Apache-2.0
"""vLLM and TensorRT-LLM beside or inside a trainer: too few or full devices, an NCCL that does not load."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import LibraryMissing
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"No available memory for the cache blocks", DeviceMemoryExhausted),
    signature(
        r"Free memory on device (?:\S+ )?\((?P<capacity>[\d.]+/[\d.]+ GiB)\) on startup is less than desired GPU memory utilization",
        DeviceMemoryExhausted,
    ),
    signature(
        r"larger than the maximum number of tokens that can be stored in KV cache \((?P<capacity>\d+)\)",
        DeviceMemoryExhausted,
    ),
    signature(
        r"[Pp]lease set tensor_parallel_size \((?P<expected>\d+)\) to less than max local gpu count \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="tensor parallel size",
    ),
    signature(
        r"(?:Tensor parallel size|World size) \((?P<expected>\d+)\) (?:cannot be|is) larger than the number of available GPUs \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="GPUs that the engine needs",
    ),
    signature(
        r"Failed to load NCCL library from (?P<name>\S{1,300}?)(?:\.? \.?It is expected|\.?\s|$)", LibraryMissing
    ),
    # TensorRT-LLM: an engine that was cut for more processes than were started
    signature(
        r"Assertion failed: mpiSize == tp \* pp", WorldSizeConflict, what="processes that the engine was built for"
    ),
    signature(
        r"Engine world size \((?P<expected>\d+)\) != Runtime world size \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="processes that the engine was built for",
    ),
)
