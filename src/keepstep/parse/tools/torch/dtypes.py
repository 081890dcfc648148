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
    signature(r"expected scalar type (?P<left>\w+) but found (?P<right>\w+)", DtypeMismatch),
    signature(
        r"[Ee]xpected object of (?:scalar )?type (?P<left>[\w.]+) but (?:found|got) (?:scalar )?type (?P<right>[\w.]+)",
        _tensor_types,
    ),
    signature(
        r"expected m(?:at1 and m)?at2 to have the same dtype, but got: (?P<left>[\w: ]+?) != (?P<right>[\w:]+)",
        DtypeMismatch,
    ),
    signature(
        r"(?:mat1 and mat2|self and mat2|tensors?|inputs?|query, key,? and value|weight and input|all operands)"
        r"[^\n]{0,40} (?:must|to) (?:have|be of) (?:the )?same (?:d)?type[^\n]{0,20}?(?:(?:but )?got:? (?P<left>[\w.: ]{1,60}?)"
        r"(?: and |, | != )(?P<right>[\w.:]+)|$)",
        DtypeMismatch,
    ),
    signature(
        r"Input type \((?P<left>[^)]+)\) and (?:weight|bias) type \((?P<right>[^)]+)\) should be the same",
        _tensor_types,
    ),
    signature(
        r"\"\w+\" not implemented for '(?P<left>Half|BFloat16|Long|Int|Bool|Byte|Char|Float8_\w+|ComplexFloat)'",
        DtypeMismatch,
    ),
    signature(r"Found dtype (?P<left>\w+) but expected (?P<right>\w+)", DtypeMismatch),
    signature(r"result type (?P<left>\w+) can't be cast to the desired output type (?P<right>\w+)", DtypeMismatch),
    signature(
        r"Index put requires the source and destination dtypes match, got (?P<left>\w+) for the destination and (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Expected tensor for argument #\d+ '\w+' to have (?:one of the following )?scalar types?:? (?P<left>[\w, ]+?)"
        r"[;,] but got (?:\S+ )?(?:\w*Tensor|type )? ?(?P<right>[\w.]+) instead",
        DtypeMismatch,
    ),
    signature(r"expected dtype (?P<left>\w+) for `?\w+`? but got dtype (?P<right>[\w:]+)", DtypeMismatch),
    signature(r"Attempting to unscale (?P<left>FP16) gradients", DtypeMismatch, right="the float32 of a master copy"),
    signature(r"(?P<left>FlashAttention) only supports? (?P<right>fp16 and bf16) data type", DtypeMismatch),
    signature(r"can't convert np\.ndarray of type (?P<left>numpy\.\w+)", DtypeMismatch),
    signature(r"value cannot be converted to type (?P<left>[\w:]+) without overflow", DtypeMismatch),
)
