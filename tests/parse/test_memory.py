# SPDX-License-Identifier: Apache-2.0
"""Host memory and shared memory that could not be had."""

from __future__ import annotations

import pytest

from keepstep.core.facts.resource import HostAllocationFailed, SharedMemoryExhausted
from keepstep.parse.tools.system import memory as table

WORDINGS = [
    ("terminate called after throwing an instance of 'std::bad_alloc'", HostAllocationFailed, {}),
    ("MemoryError", HostAllocationFailed, {}),
    ("memory allocation of 2097152 bytes failed", HostAllocationFailed, {"requested": "2097152"}),
    ("LLVM ERROR: out of memory", HostAllocationFailed, {}),
    ("virtual memory exhausted: Cannot allocate memory", HostAllocationFailed, {}),
    (
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 2.00 GiB for an array with shape (1, 2)",
        HostAllocationFailed,
        {"requested": "2.00 GiB"},
    ),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:64] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 12345 bytes.",
        HostAllocationFailed,
        {"requested": "12345 bytes"},
    ),
    ("OSError: [Errno 12] Cannot allocate memory", HostAllocationFailed, {}),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        SharedMemoryExhausted,
        {},
    ),
    (
        "RuntimeError: unable to write to file </torch_18692_1954506624>",
        SharedMemoryExhausted,
        {"path": "torch_18692_1954506624"},
    ),
    (
        "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        SharedMemoryExhausted,
        {},
    ),
    (
        "NCCL WARN Error while creating shared memory segment nccl-shm-recv-7c (size 4460544)",
        SharedMemoryExhausted,
        {"size": "4460544"},
    ),
    (
        "NCCL WARN Error: failed to extend /dev/shm/nccl-MTXfZW to 33030532 bytes, error: No space left on device (28)",
        SharedMemoryExhausted,
        {"path": "/dev/shm/nccl-MTXfZW"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "    except MemoryError:",
        "OSError: [Errno 28] No space left on device: '/data/ckpt.pt'",
        "MemoryError: std::bad_alloc: CUDA error at: cuda_memory_resource.hpp",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "RuntimeError: unable to mmap 9976576032 bytes from file </mnt/models/pytorch_model-00006.bin>: Cannot allocate memory (12)",
        HostAllocationFailed,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Some common causes include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop",
        "If the process was killed by the kernel OOM killer (verifiable by checking for OOM in dmesg of the OOMing node),",
        "if the worker was killed by the OOM killer, lower the number of workers",
    ],
)
def test_a_guess_is_not_an_observation(text, read):
    assert read(table, text) == []
