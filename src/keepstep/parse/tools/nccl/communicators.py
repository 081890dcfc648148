# SPDX-License-Identifier: Apache-2.0
"""NCCL: calls, ranks and devices that do not fit a communicator."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    signature(
        _WARN + r"[Ii]nvalid device count (?:\((?P<seen>-?\d+)\) requested|requested ?: (?P<count>-?\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["count"], what="devices of a communicator"),
    ),
    signature(
        _WARN
        + r"(?:[Ii]nvalid device (?P<seen>-?\d+) \((?:totalnDev|ndev|of)=?\s?(?P<expected>\d+)|rank (?P<rank>\d+) exceeds ndev=(?P<ndev>\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["rank"], expected=m["expected"] or m["ndev"], what="a device"),
    ),
)
