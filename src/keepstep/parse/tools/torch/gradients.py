# SPDX-License-Identifier: Apache-2.0
"""PyTorch's autograd: gradients that do not fit their tensor, forks, activation checkpointing."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import DtypeMismatch
from keepstep.parse.scan.signature import signature

_KIND = lazy_pattern(r"(?:Half|BFloat16|Float|Double|Long|Int|Short|Char|Byte|Bool|Complex\w{0,20})(?=Tensor\b)")


def _returned(match: re.Match[str]) -> Fact | None:
    """Type and device are one word here: only a different type is reported."""
    wanted, got = _KIND.search(match["right"]), _KIND.search(match["left"])
    if wanted is None or got is None or wanted[0] == got[0]:
        return None
    return DtypeMismatch(left=match["left"], right=match["right"])


SIGNATURES = (
    signature(
        r"returned an invalid gradient at index \d+ - expected (?:type|dtype) (?P<right>[\w.:]{1,60}) but got (?P<left>[\w.:]{1,60})",
        _returned,
    ),
)
