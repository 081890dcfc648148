# SPDX-License-Identifier: Apache-2.0
"""fairseq and metaseq: world size, batches, gradients and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.training import NonFinite
from keepstep.parse.scan.block import block

_NORM = lazy_pattern(r"(?:^|\s)rank +(?P<rank>\d+) = (?P<norm>\S+)")


def _norms(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The gradient norm of each rank. NaN equals nothing, so ranks that all have it seem to differ."""
    norms = []
    for line in lines:
        norm = _NORM.search(line)
        if norm is None:
            break
        norms.append(norm["norm"].lower().strip("+-"))
    if norms and all(norm in ("nan", "inf") for norm in norms):
        yield NonFinite(what=f"the gradient norm of {'every rank' if len(norms) > 1 else 'the only rank listed'}")


BLOCKS = (block(r"grad_norm across the workers:", _norms),)
