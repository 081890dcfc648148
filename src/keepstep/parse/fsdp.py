# SPDX-License-Identifier: Apache-2.0
"""PyTorch's FullyShardedDataParallel: ranks that gather different parameters, or hold different values."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import DeviceShared
from keepstep.core.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.parse.signature import signature


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
        r"rank (?P<rank>\d+) is all-gathering (?P<left>[^\n]{0,400}?) while rank (?P<other>\d+) is "
        r"all-gathering (?P<right>[^\n]{0,200})",
        _order,
        anchors=(" is all-gathering ",),
    ),
    signature(r"Rank (?P<rank>\d+) has different values for (?P<detail>\w+)", ReplicasDiffer),
    signature(
        r"Inconsistent compute device and `device_id` on rank (?P<rank>\d+): (?P<device>\S+)", DeviceShared
    ),
)
