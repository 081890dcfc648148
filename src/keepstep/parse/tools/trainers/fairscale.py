# SPDX-License-Identifier: Apache-2.0
"""FairScale: pipelines and gossip between ranks."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"too few ranks to hold given partitions \(ranks: (?P<seen>\d+), partitions: (?P<expected>\d+)\)",
        WorldSizeConflict,
        what="ranks and stages",
    ),
    signature(r"Error: Gossip flag timeout", CollectiveTimeout, op="gossip"),
)
