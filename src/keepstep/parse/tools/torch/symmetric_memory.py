# SPDX-License-Identifier: Apache-2.0
"""PyTorch's symmetric memory: buffers that the ranks of a group map into each other's address space."""

from __future__ import annotations

from keepstep.model.facts.platform import PeerAccessFault
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"\bRank (?P<rank>\d+) \(host: [^\n]{1,400}?\) failed to import memory from rank (?P<peer>\d+)",
        lambda m: PeerAccessFault(what=f"memory of rank {m['peer']} could not be imported", rank=int(m["rank"])),
    ),
)
