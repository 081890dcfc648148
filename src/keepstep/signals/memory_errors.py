# SPDX-License-Identifier: Apache-2.0
"""Exceptions of an allocator, after which less may fit. Pure.

`keepstep.microbatches` asks this before it takes a batch in smaller parts. The messages are those by which
`keepstep why` knows that memory ran out; a test compares the two.
"""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern

_TYPES = lazy_pattern(r"(?:^|\.)(?:\w{0,40}OutOfMemoryError|\w{0,40}MemoryError)$")
_WORDS = lazy_pattern(
    r"(?i)out[ _]of[ _](?:(?:device|gpu)[ _])?memory|OOM when allocating|can't allocate memory|cannot allocate memory"
    r"|(?:failed|unable) to allocate(?! resource\b)|not enough memory|could not allocate|memory resources are exhausted"
    r"|OutOfMemory|MemoryAllocation|memory_allocation|HbmOom|hbm capacity|attempting to (?:reserve|allocate) [\d.]+"
    r"|ALLOC_FAILED|bad_alloc|unable to mmap memory|enough (?:device )?memory\. Requires|Dst tensor is not initialized"
    r"|OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|alloc_cpu\.cpp|Failed to apply for memory|Allocation fail(?:ed for size|ure)"
)
LONGEST_MESSAGE = 2000


def is_out_of_memory(type_: str, message: str) -> bool:
    """By the exception's type, with its module if that is known, and its message."""
    return _TYPES.search(type_) is not None or _WORDS.search(message[:LONGEST_MESSAGE]) is not None
