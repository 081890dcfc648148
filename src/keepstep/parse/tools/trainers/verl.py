# SPDX-License-Identifier: Apache-2.0
"""verl: batches, workers and nodes that do not fit each other."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.parse.scan.signature import signature


def _equal_chunks(match: re.Match[str]) -> Fact:
    return BatchNotDivisible(batch=match["batch"], parts=match["parts"])


SIGNATURES = (
    # verl: what is dispatched is cut into one piece for each rank
    signature(
        r"only support equal chunk\. Got size of DataProto (?P<batch>\d+) and chunk (?P<parts>\d+)", _equal_chunks
    ),
    signature(r"number of items:\[(?P<batch>\d+)\] < k_partitions:\[(?P<parts>\d+)\]", _equal_chunks),
    signature(r"Error: (?P<batch>\d+) % (?P<parts>\d+) != 0", _equal_chunks),
)
