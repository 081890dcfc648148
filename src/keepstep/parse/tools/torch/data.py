# SPDX-License-Identifier: Apache-2.0
"""PyTorch's loaders and samplers, and the libraries around them: shards, labels, lengths."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.parse.scan.signature import signature


def _not_divisible(match: re.Match[str]) -> Fact | None:
    """A batch only; a world that does not divide is the launcher's matter and read elsewhere."""
    if re.search(r"(?i)world[ _]?size|layers|heads|experts", match.string):
        return None
    return BatchNotDivisible(batch=match["batch"], parts=match["parts"])


SIGNATURES = (
    # Batches that do not divide
    signature(r"(?P<batch>\d+) is not divisible by (?P<parts>\d+)", _not_divisible),
)
