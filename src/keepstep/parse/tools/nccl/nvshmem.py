# SPDX-License-Identifier: Apache-2.0
"""NVSHMEM, under DeepEP, PyTorch's symmetric memory and others: its transports over InfiniBand and its bootstrap.

It tries one transport after the other and goes on with those that work, so a transport that does not
come up is no failure by itself.
"""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch, LibraryMissing, VersionConflict
from keepstep.model.facts.network import RdmaTrouble
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # transports
    signature(
        r"/transport/(?P<device>ibgda|ibrc|ibdevx|common|libfabric|ucx)/\w{1,40}\.(?:cpp|cu|h):\d+:"
        r" (?:non-zero status: -?\d+:?|NULL value)(?P<what>[^\n]{3,100}?)(?:, exiting|\\n|$)",
        lambda m: RdmaTrouble(what=f"NVSHMEM: {m['what'].strip()}"),
    ),
    signature(
        r"transport\.cpp:(?:\w+:)?\d+: (?:non-zero status: \d+ )?Unable to initialize any transports\. returning error",
        RdmaTrouble,
        what="NVSHMEM could not initialise any transport",
    ),
    signature(
        r"init failed for (?:remote )?transport: (?P<device>ibrc|IBGDA|ibdevx|ucx|libfabric)",
        RdmaTrouble,
        what="NVSHMEM could not initialise a transport",
        fatal=False,
    ),
    signature(r"\bconnect EPS failed\b", RdmaTrouble, what="NVSHMEM could not connect its endpoints"),
    signature(r"(?P<what>neither nv_peer_mem, or nvidia_peermem detected)", RdmaTrouble, fatal=False),
    # bootstrap, versions, memory
    signature(
        r"mismatch in rank count from procs (?P<seen>\d+) : (?P<expected>\d+)",
        WorldSizeConflict,
        what="NVSHMEM bootstrap",
    ),
    signature(r"UID Bootstrap versions not compatible between PEs", VersionConflict, component="NVSHMEM"),
    signature(
        r"UID bootstrap version \(\d+\) is not compatible with NVSHMEM version"
        r"|NVSHMEM (?:device library version|version in CU\w+(?: or CU\w+)?) does not match with NVSHMEM host library",
        CudaMismatch,
        what="parts of NVSHMEM are of different versions",
    ),
    signature(
        r"Bootstrap (?:unable to load|library dlopen failed for) '?(?P<name>[^\s']{1,200}\.so[.\d]*)", LibraryMissing
    ),
    signature(
        r"\[GPU \d+\] Peer GPU (?P<peer>\d+) is not accessible, exiting",
        lambda m: PeerAccessFault(what=f"GPU {m['peer']} is not accessible to its peer"),
    ),
    signature(
        r"/mem/\w{1,40}\.(?:cpp|cu):\d+: non-zero status: 2:? [^\n]{0,60}\b(?:cuMemCreate|cuMemAlloc|cudaMalloc) failed",
        DeviceMemoryExhausted,
        requested="the symmetric heap of NVSHMEM",
    ),
)
