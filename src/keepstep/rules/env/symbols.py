# SPDX-License-Identifier: Apache-2.0
"""Which missing symbols belong to CUDA's own libraries."""

from __future__ import annotations

import re

from keepstep.rules.api import SymbolMissing, lazy_pattern

_OF_CUDA = lazy_pattern(
    r"^(?:lib)?(?:cu(?:blas|blaslt|dnn|dart|da|fft|rand|solver|sparse|pti|file)|nccl"
    r"|nv(?:rtc|jitlink|tx|ml|shmem)|__nv|__cuda|(?-i:cu[A-Z]))",
    re.IGNORECASE,
)


def of_cuda(fact: SymbolMissing) -> bool:
    """Whether a CUDA library of the wrong version was found (not a C++ or Python one)."""
    return any(bool(name and _OF_CUDA.match(name)) for name in (fact.symbol, fact.library))
