# SPDX-License-Identifier: Apache-2.0
"""PyTorch's symmetric memory: buffers that the ranks of a group map into each other's address space."""

from __future__ import annotations

from keepstep.model.facts.config import DeviceShared
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"SymmetricMemory\w*::rendezvous: detected allocations from overlapping devices from different ranks",
        DeviceShared,
    ),
    signature(
        r"ranks have mismatched NVLink clique_ids",
        PeerAccessFault,
        what="the ranks of a symmetric memory are not in one NVLink domain",
    ),
    signature(
        r"\bRank (?P<rank>\d+) \(host: [^\n]{1,400}?\) failed to import memory from rank (?P<peer>\d+)",
        lambda m: PeerAccessFault(what=f"memory of rank {m['peer']} could not be imported", rank=int(m["rank"])),
    ),
    signature(
        r"\b[Ff]ailed to (?:send|receive) fd: [A-Z]",
        UnsupportedCombination,
        what="symmetric memory among ranks that are not on one host, or do not share its temporary folder",
    ),
    signature(
        r"(?P<what>CUDASymmetricMemory requires (?:PYTORCH_C10_DRIVER_API_SUPPORTED|pidfd_open and pidfd_getfd))",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>SymmetricMemory (?:MemPool did not find backend|does not find allocation backend|does not support device type))",
        UnsupportedCombination,
    ),
    signature(
        r"SymmetricMemory::(?P<op>barrier|put_signal|wait_signal):? rank (?P<rank>\d+) failed to (?:send|receive) signal (?:to|from) rank",
        CollectiveTimeout,
    ),
    signature(r"(?P<what>Cannot get buffer across nodes), my rank: \d+", UnsupportedCombination),
)
