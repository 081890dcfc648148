# SPDX-License-Identifier: Apache-2.0
"""PyTorch: operands of different types."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import DtypeMismatch
from keepstep.parse.scan.signature import signature

_KINDS = lazy_pattern(r"(?i)\b(Half|BFloat16|Float|Double|Long|Int|Byte|Bool|ComplexFloat)(?:Tensor)?\b")


def _tensor_types(match: re.Match[str]) -> Fact | None:
    """torch names type and device in one word: only a differing type is a dtype mismatch."""
    left, right = _KINDS.search(match["left"]), _KINDS.search(match["right"])
    if left is None or right is None or left[1].lower() == right[1].lower():
        return None
    return DtypeMismatch(left=match["left"].strip(), right=match["right"].strip())


SIGNATURES = (
    signature(
        r"[Ee]xpected object of (?:scalar )?type (?P<left>[\w.]+) but (?:found|got) (?:scalar )?type (?P<right>[\w.]+)",
        _tensor_types,
    ),
    signature(
        r"Input type \((?P<left>[^)]+)\) and (?:weight|bias) type \((?P<right>[^)]+)\) should be the same",
        _tensor_types,
    ),
)
