# SPDX-License-Identifier: Apache-2.0
"""The C runtime's last words: heap checks, stack checks, failed assertions."""

from __future__ import annotations

from keepstep.model.facts.process import NativeAbort
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?P<what>(?:free|malloc|realloc|calloc|munmap_chunk|malloc_consolidate|corrupted size|corrupted double-linked list"
        r"|double free or corruption|invalid fastbin|tcache_thread_shutdown|unaligned \w+ chunk)"
        r"[\w()\- .!]{0,40}(?:: ?)?(?:invalid (?:pointer|size|next size|old size)[^\n]{0,40}|memory corruption[^\n]{0,30}"
        r"|corrupted [^\n]{0,40}|double free[^\n]{0,40}|mismatching next->prev_size[^\n]{0,20}|invalid next size[^\n]{0,20}"
        r"|unaligned [^\n]{0,40}|unsorted [^\n]{0,40}|chunk is[^\n]{0,40}))",
        NativeAbort,
    ),
    signature(
        r"(?P<what>corrupted size vs\. prev_size[^\n]{0,40}|corrupted double-linked list[^\n]{0,20}|double free or corruption[^\n]{0,20})",
        NativeAbort,
    ),
    signature(r"\*\*\* (?P<what>stack smashing detected|buffer overflow detected) \*\*\*", NativeAbort),
    signature(r"(?P<what>pure virtual method called)", NativeAbort),
    signature(
        r": (?P<where>[\w./\-]+\.(?:c|h|cc|cpp|hpp):\d+): [^\n]{1,300}: Assertion `(?P<what>[^\n]{1,200}?)' failed",
        NativeAbort,
    ),
)
