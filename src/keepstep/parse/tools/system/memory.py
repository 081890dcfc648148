# SPDX-License-Identifier: Apache-2.0
"""Host memory and shared memory that ran out, as the C++ and Python runtimes and libraries report it."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import HostAllocationFailed, MemoryGrew, OomKilled, SharedMemoryExhausted
from keepstep.parse.scan.signature import signature

_ONE_OF_THE_GUESSES = lazy_pattern(r"\(\d\) the $|\b[Ii]f (?:the |a )$|auses? (?:include|are)[^\n]{0,60}$")
"""Before what would else be told as seen."""


def _torch_cpu(match: re.Match[str]) -> Fact:
    size = match["requested"]
    return HostAllocationFailed(requested=f"{size} bytes" if size else None)


SIGNATURES = (
    signature(r"std::bad_alloc", lambda m: None if "CUDA" in m.string else HostAllocationFailed()),
    signature(
        r"(?:^|\s)(?:numpy\.(?:core\._exceptions\.)?_?(?:Array)?)?MemoryError(?::[ ](?P<detail>[^\n]{0,120})|$)",
        lambda m: (
            None if "CUDA" in m.string or "cuda" in m.string else HostAllocationFailed(requested=_size_in(m["detail"]))
        ),
    ),
    signature(r"_ArrayMemoryError: Unable to allocate (?P<requested>[\d.]+ ?[KMGTP]?i?B)", HostAllocationFailed),
    signature(r"Unable to allocate (?P<requested>[\d.]+ ?[KMGTP]i?B) for an array with shape", HostAllocationFailed),
    signature(
        r"DefaultCPUAllocator: (?:can't allocate memory: you tried to allocate|not enough memory: you tried to allocate) (?P<requested>\d+) bytes",
        _torch_cpu,
    ),
    signature(r"DefaultCPUAllocator: can't allocate memory", HostAllocationFailed),
    signature(r"RuntimeError: Could not allocate bytes object!", HostAllocationFailed),
    signature(
        r"\$ Torch: not enough memory: you tried to allocate (?P<requested>[\d.]+ ?[KMGT]?B)", HostAllocationFailed
    ),
    signature(r"\[enforce fail at (?:CPUAllocator|alloc_cpu)\.cpp:\d+\]", HostAllocationFailed),
    signature(r"(?:\[Errno 12\] |errno[ :=]+12\D|fork[^\n]{0,40})Cannot allocate memory", HostAllocationFailed),
    signature(r"Failed to allocate (?:host|CPU|pinned) memory", HostAllocationFailed),
    signature(r"Torch: unable to mmap memory: you tried to mmap", HostAllocationFailed),
    signature(r"java\.lang\.OutOfMemoryError", HostAllocationFailed),
    signature(r"OpenBLAS error: Memory allocation still failed", HostAllocationFailed),
    # the allocators of Rust (tokenizers, safetensors, polars), jemalloc, tcmalloc, mimalloc, LLVM, GLib and GCC
    signature(
        r"memory allocation of (?:memory allocation of )*(?P<requested>\d{1,20}) bytes failed", HostAllocationFailed
    ),
    signature(
        r"<jemalloc>: (?:Error allocating|Out of memory|arena \d+ alloc error)|tcmalloc: allocation failed \d+|mimalloc: error: (?:unable to allocate|out of memory)"
        r"|LLVM ERROR: out of memory|GLib-ERROR \*\*:[^\n]{0,60}failed to allocate \d+ bytes|virtual memory exhausted: Cannot allocate memory"
        r"|(?:cc1|cc1plus|cudafe\+\+|ptxas|nvlink|cicc): (?:fatal error: )?out of memory",
        HostAllocationFailed,
    ),
    signature(
        r"pyarrow\.lib\.ArrowMemoryError|ArrowMemoryError: (?:malloc|realloc) of size (?P<requested>\d+) failed",
        HostAllocationFailed,
    ),
    signature(r"mmap[^\n]{0,400}(?:: |failed: |\()Cannot allocate memory", HostAllocationFailed),
    signature(
        r"out of memory while trying to allocate pinned|cudaHostAlloc[^\n]{0,60}out of memory|failed to alloc (?P<requested>\d+) bytes on host",
        lambda m: None if "failed to alloc" in m[0] else HostAllocationFailed(),
    ),
    signature(r"distributed\.nanny[^\n]{0,40}Worker exceeded 9\d% memory budget", OomKilled, by="Dask"),
    signature(
        r"(?:process|worker|job|task|node|rank|[Pp]od|container)[^\n]{0,60} killed (?:due to|because of|by) (?:the )?(?:OOM|oom|out[- ]of[- ]memory)",
        lambda m: (
            None
            if _ONE_OF_THE_GUESSES.search(m.string[max(0, m.start() - 90) : m.start()])
            else OomKilled(by="the system")
        ),
    ),
    # growth that the run itself reports
    signature(r"(?i:possible|potential) memory leak(?: detected)?(?P<detail>[^\n]{0,80})", MemoryGrew),
    # shared memory
    signature(r"[Ii]nsufficient shared memory \(shm\)", SharedMemoryExhausted),
    signature(r"It is possible that dataloader's workers are out of shared memory", SharedMemoryExhausted),
    signature(
        r"unable to (?:mmap(?: \d+ bytes from file)?|write to file|resize file|allocate shared memory\(shm\) for file) </?(?P<path>[^>\n]{1,200})>",
        lambda m: SharedMemoryExhausted(path=m["path"]) if _is_shm(m) else None,
    ),
    signature(r"unable to open shared memory object </(?P<path>[^>\n]{1,200})>", SharedMemoryExhausted),
    signature(r"(?:shm_open|shared memory)[^\n]{0,100}No space left on device", SharedMemoryExhausted),
    signature(r"No space left on device[^\n]{0,80}(?P<path>/dev/shm[^\s'\"]{0,100})", SharedMemoryExhausted),
    signature(r"(?P<path>/dev/shm[^\s'\":]{0,100})[^\n]{0,80}No space left on device", SharedMemoryExhausted),
    signature(
        r"NCCL WARN Error(?: while|:)? (?:creating|failed to (?:open|extend|allocate)|attaching to) (?:a )?shared memory segment (?P<path>\S+)"
        r"(?: \(?(?:size|of size) (?P<size>\d+))?",
        SharedMemoryExhausted,
    ),
    signature(
        r"NCCL WARN[^\n]{0,80}(?:failed to extend|shmOpen|shm_open)[^\n]{0,20}(?P<path>/dev/shm/\S+)?(?: to (?P<size>\d+) bytes)?",
        SharedMemoryExhausted,
    ),
    signature(r"This might be caused by insufficient shared memory", SharedMemoryExhausted),
    signature(
        r"It appears as if there is not enough space for (?P<path>\S+) \(the shared-memory backing",
        SharedMemoryExhausted,
    ),
    signature(r"(?:/dev/shm|shared memory)[^\n]{0,60}(?:is full|too small|ran out|exhausted)", SharedMemoryExhausted),
)


def _size_in(text: str | None) -> str | None:
    found = re.search(r"(?<![\d.])[\d.]+ ?[KMGTP]i?B|(?<!\d)\d{4,} bytes", text or "")
    return found[0] if found else None


def _is_shm(match: re.Match[str]) -> bool:
    """``torch_<pid>_<n>`` files are POSIX shared memory; other paths are files on a disk."""
    return bool(re.search(r"(?:^|/)torch_\d+", match["path"])) or "shm" in match[0]
