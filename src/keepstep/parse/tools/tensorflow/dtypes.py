# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: operands of different types."""

from __future__ import annotations

from keepstep.model.facts.data import DtypeMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Value for attr '\w+' of (?P<left>\w+) is not in the list of allowed values: (?P<right>[^\n;]{1,120})",
        DtypeMismatch,
    ),
    signature(r"Failed to convert a NumPy array to a Tensor \(Unsupported object type (?P<left>[\w.]+)", DtypeMismatch),
    signature(
        r"Cannot convert (?:value|the argument `\w{1,20}`:) dtype\('?(?P<left>[^')\n]{1,40})'?\) to a TensorFlow DType",
        DtypeMismatch,
    ),
    signature(
        r"TensorArray dtype is (?P<left>\w+) but Op (?:is trying to write|requested) dtype (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Expected (?P<left>u?int\d+|b?float\d+|bool|string)(?:_ref)?(?: passed to parameter '\w+' of op '\w+')?, "
        r"(?:but )?got [^\n]{0,200}? of type '(?P<right>\w+)' instead",
        DtypeMismatch,
    ),
    signature(
        r"must have the same dtype, got (?P<left>tf\.\w+|<dtype: '\w+'>|\w+) != (?P<right>tf\.\w+|<dtype: '\w+'>|\w+)",
        DtypeMismatch,
    ),
    signature(r"Op have types \[(?P<left>[\w, <>.:']{1,200})\] that don't all match", DtypeMismatch),
    signature(r"Inconsistent values for attr '\w+' (?P<left>DT_\w+) vs\. (?P<right>DT_\w+)", DtypeMismatch),
    signature(
        r"Trying to (?:assign|read|sparse read) (?:a )?variable with wrong dtype\. Expected (?P<left>\w+) got (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"as input #\d+(?:\(zero-based\))? was expected to be an? (?P<left>\w+) tensor but is an? (?P<right>\w+) tensor",
        DtypeMismatch,
    ),
    signature(r"Tensor conversion requested dtype (?P<left>\w+) for Tensor with dtype (?P<right>\w+)", DtypeMismatch),
    signature(r"Input '\w+' of '\w+' Op has type (?P<left>\w+) that does not match type (?P<right>\w+)", DtypeMismatch),
    signature(
        r"[Tt]ype mismatch[^\n]{0,80}: (?:expected )?(?P<left>DT_\w+|tf\.\w+|torch\.\w+)[^\n]{1,40}?(?P<right>DT_\w+|tf\.\w+|torch\.\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Incompatible (?:type|tensor) conversion requested to (?:type|`dtype`) '?(?P<left>\w+)'? for [^\n]{1,160}? (?:of|to|with) d?type '?(?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Value passed to parameter '(?:[^'\n]{1,80})' has DataType (?P<left>\w+) not in list of allowed values: (?P<right>[\w, ]{1,120})",
        DtypeMismatch,
    ),
    signature(
        r"Check failed: dtype\(\) == expected_dtype \(\d+ vs\. \d+\) ?(?P<right>\w+) expected, got (?P<left>\w+)",
        DtypeMismatch,
    ),
)
