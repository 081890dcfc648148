# SPDX-License-Identifier: Apache-2.0
"""Host memory and shared memory that ran out, as the C++ and Python runtimes and libraries report it."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import HostAllocationFailed, OomKilled, SharedMemoryExhausted
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
    signature(
        r"DefaultCPUAllocator: (?:can't allocate memory: you tried to allocate|not enough memory: you tried to allocate) (?P<requested>\d+) bytes",
        _torch_cpu,
    ),
    signature(
        r"out of memory while trying to allocate pinned|cudaHostAlloc[^\n]{0,60}out of memory|failed to alloc (?P<requested>\d+) bytes on host",
        lambda m: None if "failed to alloc" in m[0] else HostAllocationFailed(),
    ),
    signature(
        r"(?:process|worker|job|task|node|rank|[Pp]od|container)[^\n]{0,60} killed (?:due to|because of|by) (?:the )?(?:OOM|oom|out[- ]of[- ]memory)",
        lambda m: (
            None
            if _ONE_OF_THE_GUESSES.search(m.string[max(0, m.start() - 90) : m.start()])
            else OomKilled(by="the system")
        ),
    ),
    # shared memory
    signature(
        r"unable to (?:mmap(?: \d+ bytes from file)?|write to file|resize file|allocate shared memory\(shm\) for file) </?(?P<path>[^>\n]{1,200})>",
        lambda m: SharedMemoryExhausted(path=m["path"]) if _is_shm(m) else None,
    ),
)


def _size_in(text: str | None) -> str | None:
    found = re.search(r"(?<![\d.])[\d.]+ ?[KMGTP]i?B|(?<!\d)\d{4,} bytes", text or "")
    return found[0] if found else None


def _is_shm(match: re.Match[str]) -> bool:
    """``torch_<pid>_<n>`` files are POSIX shared memory; other paths are files on a disk."""
    return bool(re.search(r"(?:^|/)torch_\d+", match["path"])) or "shm" in match[0]
