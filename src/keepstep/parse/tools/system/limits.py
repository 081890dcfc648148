# SPDX-License-Identifier: Apache-2.0
"""Limits on open files, processes, threads and locked memory (``ulimit``), as libraries report them."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import LimitReached
from keepstep.parse.scan.signature import signature

_FORKS = lazy_pattern(r"what\(\):|fork|thread|clone|spawn|Popen|process|posix_spawn|runtime/cgo")


def _again(match: re.Match[str]) -> Fact | None:
    """EAGAIN is a limit only where something was to be started; sockets give it all the time."""
    return LimitReached(limit="processes or threads") if _FORKS.search(match.string) else None


SIGNATURES = (
    signature(r"[Tt]oo many open files", LimitReached, limit="open files"),
    signature(r"\bEMFILE\b|\[Errno 24\](?! Too)", LimitReached, limit="open files"),
    signature(r"received (?:0|\d+) items? of ancdata", LimitReached, limit="open files"),
    signature(
        r"(?:ulimit -n|RLIMIT_NOFILE|open files limit)[^\n]{0,60}(?:too low|exceeded|reached)",
        LimitReached,
        limit="open files",
    ),
    signature(r"[Rr]esource temporarily unavailable", _again),
    signature(r"MDB_READERS_FULL|lmdb\.ReadersFullError", LimitReached, limit="readers of an LMDB file"),
    signature(r"MDB_MAP_FULL|lmdb\.MapFullError", LimitReached, limit="the map size of an LMDB file"),
    signature(r"libgomp: Thread creation failed", LimitReached, limit="threads"),
    signature(
        r"OpenBLAS (?:blas_thread_init|warning|:)?[^\n]{0,40}pthread_create (?:failed|error)",
        LimitReached,
        limit="threads",
    ),
    signature(
        r"(?:can't|cannot|unable to|[Ff]ailed to) (?:start|create|spawn) (?:a )?(?:new )?thread",
        LimitReached,
        limit="threads",
    ),
    signature(
        r"pthread_create(?:\(\))? (?:failed|error)|pthread_create: Resource temporarily", LimitReached, limit="threads"
    ),
    signature(
        r"OMP: Error #34: System unable to allocate necessary resources for OMP thread", LimitReached, limit="threads"
    ),
    signature(
        r"Thread creation via pthread_create\(\) failed|Check failed: ret == 0[^\n]{0,60}Thread \S+ creation",
        LimitReached,
        limit="threads",
    ),
    signature(r"runtime/cgo: pthread_create failed", LimitReached, limit="threads"),
    signature(r"fork: retry: (?:No child processes|Resource temporarily unavailable)", LimitReached, limit="processes"),
    signature(r"cgroup: fork rejected by pids controller", LimitReached, limit="processes (pids cgroup)"),
    signature(
        r"ibv_reg_mr[^\n]{0,80}Cannot allocate memory|RLIMIT_MEMLOCK[^\n]{0,60}(?:small|limit)"
        r"|memlock[^\n]{0,40}(?:too low|too small|limit)",
        LimitReached,
        limit="locked memory",
    ),
    signature(r"too many concurrent processes|Too many processes", LimitReached, limit="processes"),
    signature(
        r"OSError: \[Errno 23\] Too many open files in system", LimitReached, limit="open files of the whole system"
    ),
    signature(r"inotify (?:watch|instance)[^\n]{0,40}limit reached", LimitReached, limit="inotify watches"),
    signature(r"vm\.max_map_count[^\n]{0,40}(?:too low|is too)", LimitReached, limit="memory maps"),
)
