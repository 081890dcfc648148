# SPDX-License-Identifier: Apache-2.0
"""PyTorch's autograd: gradients that do not fit their tensor, forks, activation checkpointing."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import ForkOrThread
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
        r"attempting to assign a gradient with dtype '(?P<left>[\w:.]{1,40})' to a tensor with (?:grad_)?dtype '(?P<right>[\w:.]{1,40})'",
        DtypeMismatch,
    ),
    signature(
        r"attempting to assign a gradient of size '(?P<left>\[[^\]\n]{0,80}\])' to a tensor of size '(?P<right>\[[^\]\n]{0,80}\])'",
        ShapeMismatch,
        op="gradient",
    ),
    signature(r"assigned grad has data of a different type", DtypeMismatch),
    signature(r"assigned grad has data of a different size", ShapeMismatch, op="gradient"),
    signature(
        r"returned an invalid gradient at index \d+ - expected (?:type|dtype) (?P<right>[\w.:]{1,60}) but got (?P<left>[\w.:]{1,60})",
        _returned,
    ),
    signature(
        r"Unable to handle autograd's threading in combination with fork-based multiprocessing",
        ForkOrThread,
        what="autograd used before a fork and after it",
    ),
    # activations recomputed in the backward pass: under ZeRO-3 or FSDP, parameters may be sharded again by then
    signature(
        r"torch\.utils\.checkpoint: (?:Recomputed values for the following tensors have different metadata|A different number of tensors was saved"
        r"|trying to save more tensors during recomputation|Unpack is being triggered for a tensor that was already unpacked)",
        UnsupportedCombination,
        what="activation checkpointing with a forward pass that differs when run again (as when parameters are sharded)",
    ),
    signature(
        r"(?:torch\.utils\.checkpoint|Checkpointing) is (?P<what>(?:incompatible|not compatible) with \.grad\(\))",
        UnsupportedCombination,
    ),
)
