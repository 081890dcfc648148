# SPDX-License-Identifier: Apache-2.0
"""Writes that failed for lack of space, quota or inodes: the system's messages and the writers' own."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import DiskFull
from keepstep.parse.scan.signature import signature

_SHM = lazy_pattern(
    r"/dev/shm|posix_fallocate|shared memory|shm_open|shmOpen|NCCL WARN|/torch_\d+_|<torch_\d+_|pytorch_shm"
    r"|semaphore|SemLock"
)


def _no_space(match: re.Match[str]) -> Fact | None:
    """ENOSPC of a file; that of shared memory has signatures of its own."""
    if _SHM.search(match.string):
        return None
    named = re.search(r"['\"<(:\s](?P<path>/[^\s'\">:;,)]{2,200})", match.string)
    return DiskFull(path=named["path"] if named else None)


SIGNATURES = (
    signature(r"No space left on device", _no_space),
    signature(r"\[Errno 28\](?! No space| inotify)|\bENOSPC\b", _no_space),
)
