# SPDX-License-Identifier: Apache-2.0
"""Device memory that ran out, as PyTorch, TensorFlow, JAX, NCCL and CUDA's libraries word it."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import DeviceMemoryExhausted, HostAllocationFailed
from keepstep.parse.scan.signature import signature


def _tensor_oom(match: re.Match[str]) -> Fact:
    """TensorFlow's line names the allocator: a CPU allocator means host memory, not the device's."""
    place = match["place"] or ""
    what = f"tensor {match['shape']}" if match["shape"] else None
    if re.search(r"device:CPU|by allocator (?:mkl)?cpu", place):
        return HostAllocationFailed(requested=what)
    if "TPU" in place:
        return DeviceMemoryExhausted(kind="tpu", requested=what)
    device = re.search(r"(GPU:\d+|GPU_\d+)", place)
    task = re.search(r"/job:worker/replica:\d+/task:(\d+)", place)
    return DeviceMemoryExhausted(
        requested=what, device=device[1] if device else None, rank=int(task[1]) if task else None
    )


def _bfc(match: re.Match[str]) -> Fact | None:
    """TensorFlow's allocator also says this where it goes on with less."""
    if "not a failure" in match.string:
        return None
    if not match["allocator"].lower().startswith("gpu"):
        return HostAllocationFailed(requested=match["requested"])
    return DeviceMemoryExhausted(device=match["allocator"], requested=match["requested"], fatal=False)


def _torch_oom(match: re.Match[str]) -> Fact:
    """What was free and what tensors held follows in the same line, in the order of the version."""
    device, line = match["device"] or match["device2"], match.string[match.end() : match.end() + 400].split("\n")[0]
    allowed = _first(r"({size}) allowed", line)  # the process has a limit of its own: what else is free is not for it
    capacity = allowed or match["capacity"] or _first(r"total capacity of ({size})", line)
    return DeviceMemoryExhausted(
        requested=match["requested"],
        device=f"GPU {device}" if device else None,
        capacity=capacity,
        free=None if allowed else _first(r"({size}) (?:is )?free", line),
        held=_first(r"({size}) (?:is allocated by PyTorch|already allocated)", line),
    )


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern.replace("{size}", r"\d[\d.]{0,20} ?(?:[KMGT]i?B|bytes)"), text)
    return found[1] if found else None


SIGNATURES = (
    # PyTorch, all versions: CUDA out of memory. / HIP out of memory. / ... on rank
    signature(
        r"(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory\. ?(?:Tried to allocate (?P<requested>[\d.]{1,20} ?[KMGT]?i?B))?"
        r"(?: \((?:GPU|NPU|XPU) (?P<device>\d+);|[^\n]{0,20}?(?:GPU|NPU|XPU) (?P<device2>\d+))?(?:[^\n]{0,60}?(?<![\d.])(?P<capacity>[\d.]{1,20}"
        r" ?[KMGT]i?B) total capacity)?",
        _torch_oom,
    ),
    signature(r"CUDA_ERROR_OUT_OF_MEMORY", lambda m: DeviceMemoryExhausted(fatal=False)),
    signature(
        r"OOM when allocating tensor(?: with shape ?(?P<shape>\[[\d,\s]*\]))?(?P<place>[^\n]{0,300})", _tensor_oom
    ),
    signature(
        r"Allocator \((?P<allocator>[\w:]+)\) ran out of memory trying to allocate (?P<requested>[\d.]+ ?[KMGT]?i?B)",
        _bfc,
    ),
    signature(
        r"failed to allocate (?P<requested>[\d.]+[KMGT]?i?B?) \(\d+ bytes\) from device: (?:CUDA"
        r"|HIP)_ERROR_OUT_OF_MEMORY",
        lambda m: DeviceMemoryExhausted(requested=m["requested"], fatal=False),
    ),
    # handles that cannot be created: the workspace no longer fits
    signature(r"CUBLAS_STATUS_ALLOC_FAILED", lambda m: DeviceMemoryExhausted(fatal=False)),
    signature(
        r"CUBLAS_STATUS_NOT_INITIALIZED when calling `?cublasCreate", lambda m: DeviceMemoryExhausted(fatal=False)
    ),
    signature(
        r"failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED", lambda m: DeviceMemoryExhausted(fatal=False)
    ),
    signature(r"CUDNN_STATUS_ALLOC_FAILED", lambda m: DeviceMemoryExhausted(fatal=False)),
    signature(
        r"CUSOLVER_STATUS_(?:ALLOC_FAILED|INTERNAL_ERROR,? when calling `?cusolverDnCreate)",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(r"Failed to create cuSolver\w{1,4} instance", lambda m: DeviceMemoryExhausted(fatal=False)),
    signature(
        r"Unable to find a valid cuDNN algorithm to run convolution", lambda m: DeviceMemoryExhausted(fatal=False)
    ),
    signature(
        r"[Cc]ould not create cudnn handle: CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)"
        r"|Check failed: stream->parent\(\)->GetConvolve(?:Backward(?:Data|Filter))?Algorithms\(",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"Failed to get convolution algorithm\. This is probably because cuDNN failed to initialize",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"Blas (?:x|S|D|C|Z|xGEMV|)?GEM[MV](?:Batched|StridedBatched)? launch failed|Error: (?:cuDNN launch failure ?:(?! input shape ?\(?\[0,)|Failed to call "
        r"(?:ThenRnn|DoRnn)(?:Forward|Backward)|No algorithm worked!|GPU sync failed)",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
)
