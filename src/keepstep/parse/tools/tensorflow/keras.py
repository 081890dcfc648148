# SPDX-License-Identifier: Apache-2.0
"""Keras 1 to 3: what ``fit`` says about its input and its stopping, and what it does not support."""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.data import EndOfData
from keepstep.parse.scan.signature import signature

_AS_A_WARNING = lazy_pattern(r"(?:^|\.py:\d+: )UserWarning: $")


SIGNATURES = (
    signature(
        r"[Yy]our (?:input|dataset(?: iterator)?) ran out of data",
        lambda m: EndOfData(what="ran out of data", warned=bool(_AS_A_WARNING.search(m.string[: m.start()]))),
    ),
)
