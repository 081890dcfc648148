# SPDX-License-Identifier: Apache-2.0
"""PyTorch's FullyShardedDataParallel: ranks that gather different parameters, or hold different values."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.model.facts.training import CheckpointMismatch
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
        r"(?:`?FlatParameter`? requires uniform dtype|(?:FSDP|fully_shard) expects uniform original parameter dtype) but got "
        r"(?P<left>torch\.\w+|\{[^\n}]{1,120}\})(?: and (?P<right>torch\.\w+))?",
        DtypeMismatch,
    ),
    signature(
        r"(?P<what>(?:`?FlatParameter`? requires|Must flatten tensors with) uniform `?requires_grad`?[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Cannot flatten integer dtype tensors|[Ii]nteger parameters are unsupported)", UnsupportedCombination
    ),
    signature(
        r"(?P<detail>(?:Global|Local) (?:world size|rank) at save time was \d+, but at load time was \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"rank (?P<rank>\d+) is all-gathering (?P<left>[^\n]{0,400}?) while rank (?P<other>\d+) is all-gathering (?P<right>[^\n]{0,200})",
        _order,
    ),
    signature(r"Rank (?P<rank>\d+) has different values for (?P<detail>\w+)", ReplicasDiffer),
    signature(
        r"Inconsistent compute device and `device_id` on rank (?P<rank>\d+): (?P<on>\S+) vs (?P<own>[\w:]+)",
        lambda m: ClusterSpecInvalid(
            rank=int(m["rank"]), detail=f"the model is on {m['on']}, but the rank was given {m['own']}"
        ),
    ),
    signature(
        r"FSDP currently requires each rank to have at least the optimizer states needed by rank 0's optimizer",
        ReplicasDiffer,
        detail="ranks hold the state of different parameters",
    ),
    signature(
        r"reshard_after_forward as an int, it should be a factor of (?P<expected>\d+), not (?P<seen>\d+)",
        WorldSizeConflict,
        what="shards of a group",
    ),
    signature(r"Must flatten tensors with uniform dtype but got (?P<left>[\w.]+) and (?P<right>[\w.]+)", DtypeMismatch),
    signature(
        r"Must flatten tensors with the same d(?:ata )?type but got (?P<left>[\w.]+) and (?P<right>[\w.]+)",
        DtypeMismatch,
    ),
)
