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
    signature(r"Disk quota exceeded|\[Errno 122\]|\bEDQUOT\b", DiskFull, quota=True),
    signature(
        r"[Tt]here is not enough space on the disk|not enough (?:free )?disk space|[Ii]nsufficient disk space|Not enough free space",
        DiskFull,
    ),
    signature(r"PytorchStreamWriter failed writing (?:file|central directory)", DiskFull),
    signature(
        r"\[enforce fail at inline_container\.cc:\d+\] ?\. ?(?:PytorchStreamWriter failed|unexpected pos)", DiskFull
    ),
    # torch's own writers: a folder that is not there has words of its own, so what is left is space or rights
    signature(r"RuntimeError: File (?P<path>\S{1,300}) cannot be opened\.", DiskFull),
    signature(r"write\(\): fd \d+ failed with (?!Bad file descriptor|Broken pipe)", DiskFull),
    signature(r"basic_ios::clear: iostream error", DiskFull),
    signature(r"errno = 28, error message = 'No space left", DiskFull),
    signature(
        r"Can't write data \(file write failed|Unable to (?:flush|close) file[^\n]{0,80}(?:No space|errno = 28)",
        DiskFull,
    ),
    signature(r"The disk is full|disk is full\b", DiskFull),
    signature(r"Could not append to the internal temporary file", DiskFull),
    # TensorFlow before 1.2 names only the file; what ran out when a file was written is its space
    signature(
        r"(?:ResourceExhaustedError(?: \(see above for traceback\))?|Resource exhausted|RESOURCE_EXHAUSTED): ?(?P<path>\S{1,300}"
        r"(?:\.tempstate\d+|\.data-\d{5}-of-\d{5}|\.index|tfevents\.\S{1,80}))(?![\w.]*; ?Too many)",
        DiskFull,
    ),
)
