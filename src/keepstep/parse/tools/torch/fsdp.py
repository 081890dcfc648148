# SPDX-License-Identifier: Apache-2.0
"""PyTorch's FullyShardedDataParallel: ranks that gather different parameters, or hold different values."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.signature import signature


def _order(match: re.Match[str]) -> Fact:
    return CollectiveMismatch(
        what="order of all-gathers",
        rank=int(match["rank"]),
        other_rank=int(match["other"]),
        left=match["left"].strip()[:80],
        right=match["right"].strip()[:80],
    )


SIGNATURES = (
    signature(
        r"expected to be in states? [^\n]{0,120}? but current state is (?P<state>[\w.]*(?:TrainingState|HandleTrainingState)[\w.]*)",
        lambda m: UnsupportedCombination(what=f"FSDP was asked for something that it does not allow in {m['state']}"),
    ),
    signature(
        r"rank (?P<rank>\d+) is all-gathering (?P<left>[^\n]{0,400}?) while rank (?P<other>\d+) is all-gathering (?P<right>[^\n]{0,200})",
        _order,
    ),
    signature(
        r"Inconsistent compute device and `device_id` on rank (?P<rank>\d+): (?P<on>\S+) vs (?P<own>[\w:]+)",
        lambda m: ClusterSpecInvalid(
            rank=int(m["rank"]), detail=f"the model is on {m['on']}, but the rank was given {m['own']}"
        ),
    ),
)
