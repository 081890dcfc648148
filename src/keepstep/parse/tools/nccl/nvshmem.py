# SPDX-License-Identifier: Apache-2.0
"""NVSHMEM, under DeepEP, PyTorch's symmetric memory and others: its transports over InfiniBand and its bootstrap.

It tries one transport after the other and goes on with those that work, so a transport that does not
come up is no failure by itself.
"""

from __future__ import annotations

from keepstep.model.facts.network import RdmaTrouble
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # transports
    signature(
        r"/transport/(?P<device>ibgda|ibrc|ibdevx|common|libfabric|ucx)/\w{1,40}\.(?:cpp|cu|h):\d+:"
        r" (?:non-zero status: -?\d+:?|NULL value)(?P<what>[^\n]{3,100}?)(?:, exiting|\\n|$)",
        lambda m: RdmaTrouble(what=f"NVSHMEM: {m['what'].strip()}"),
    ),
    # bootstrap, versions, memory
    signature(
        r"\[GPU \d+\] Peer GPU (?P<peer>\d+) is not accessible, exiting",
        lambda m: PeerAccessFault(what=f"GPU {m['peer']} is not accessible to its peer"),
    ),
)
