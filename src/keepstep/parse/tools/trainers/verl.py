# SPDX-License-Identifier: Apache-2.0
"""verl: batches, workers and nodes that do not fit each other."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.parse.scan.signature import signature


def _equal_chunks(match: re.Match[str]) -> Fact:
    return BatchNotDivisible(batch=match["batch"], parts=match["parts"])


SIGNATURES = (
    signature(r"worker count (?P<seen>\d+) != (?:PD )?world size (?P<expected>\d+)", WorldSizeConflict, what="workers"),
    signature(
        r"Got mini_batch_size=(?P<batch>\d+) and self\.engine\.get_data_parallel_size\(\)=(?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(r"(?P<detail>no enough nodes for request: searching)", ClusterSpecInvalid),
    signature(
        r"Error: (?P<what>When using sequence parallelism[^\n]{0,80}, you must enable [^\n]{1,60})",
        UnsupportedCombination,
    ),
    # verl: what is dispatched is cut into one piece for each rank
    signature(
        r"only support equal chunk\. Got size of DataProto (?P<batch>\d+) and chunk (?P<parts>\d+)", _equal_chunks
    ),
    signature(r"number of items:\[(?P<batch>\d+)\] < k_partitions:\[(?P<parts>\d+)\]", _equal_chunks),
    signature(r"Error: (?P<batch>\d+) % (?P<parts>\d+) != 0", _equal_chunks),
)
