# SPDX-License-Identifier: Apache-2.0
"""fairseq and metaseq: world size, batches, gradients and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import UnevenShards
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, StepsSkipped
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

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

SIGNATURES = (
    # fairseq and metaseq, where one process is to start all ranks
    signature(
        r"world size is (?P<expected>\d+) but have (?P<seen>\d+) available devices", WorldSizeConflict, what="devices"
    ),
    signature(
        r"(?P<detail>Cannot load state dict with strict=True and checkpoint shards > 1|state_dict does not contain \S{1,120}\. Cannot load)",
        CheckpointMismatch,
    ),
    signature(
        r"Trying to use an uninitialized 'dummy' batch|total number of batches is smaller than the number of participating GPUs",
        UnevenShards,
        detail="fewer batches than ranks",
    ),
    signature(
        r"(?:IOError|OSError): Model file not found: (?P<path>\S+)", CheckpointUnreadable, why="it does not exist"
    ),
    signature(
        r"Cannot load model parameters from checkpoint (?P<detail>[^\s;]{1,300});? ?please ensure that the architectures match",
        CheckpointMismatch,
    ),
    signature(
        r"gradient overflow detected, ignoring gradient, setting loss scale to: (?P<scale>[\d.e+-]{1,20})", StepsSkipped
    ),
    signature(r"(?P<detail>Optimizer does not match; please reset the optimizer)", CheckpointMismatch),
)
