# SPDX-License-Identifier: Apache-2.0
"""Addresses and peers: what several rules of this family ask."""

from __future__ import annotations

import re

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.network import PeerLost
from keepstep.core.facts.process import ProcessExited

_LOOPBACK = re.compile(r"^\[?(?:::ffff:)?(?:127\.|localhost|::1\]?(?:$|:|<)|0\.0\.0\.0)")
_HOSTS_ONLY = re.compile(r"^\[?(?:fe80:|169\.254\.|172\.17\.|192\.168\.122\.)")
_VIRTUAL = re.compile(
    r"^(?:docker|veth|br-|virbr|lo$|tun|tap|cni|flannel|cali|vmnet|vnet|podman|lxc|lxd|kube|nodelocaldns|"
    r"dummy|zt|tailscale|wg)\w*",
)

BY_LIMIT = ("store key", "remote call")
"""Where a rank waits by a limit of its own (``RendezvousTimeout.where``), while the others may be well."""


def loopback(address: str | None) -> bool:
    """Whether an address reaches only the own host."""
    return bool(address and _LOOPBACK.match(address))


def host_only(address: str | None) -> bool:
    """Whether an address belongs to a link or bridge that other hosts do not share."""
    return bool(address and _HOSTS_ONLY.match(address))


def virtual(interface: str) -> bool:
    """Whether an interface's name is one of a bridge, tunnel or container."""
    return bool(_VIRTUAL.match(interface))


def lost_rank(seen: EvidenceSet, lost: list[Evidence[PeerLost]]) -> tuple[int, ...]:
    """The rank whose loss the others report, where it can be told."""
    named = tuple(dict.fromkeys(e.fact.peer_rank for e in lost if e.fact.peer_rank is not None))
    if named and len(named) <= 2:
        return named
    reporters = {r for e in lost if (r := e.who) is not None}
    struck = tuple(
        dict.fromkeys(
            r
            for e in seen.all(ProcessExited)
            if (e.fact.first or e.fact.signal in _STRUCK)
            and (r := e.fact.rank) is not None
            and r not in reporters
        )
    )
    if struck and len(struck) <= 2:
        return struck
    size = seen.world_size or (max(reporters | set(seen.ranks)) + 1 if reporters | set(seen.ranks) else 0)
    silent = tuple(r for r in range(min(size, 4096)) if r not in reporters)
    return silent if len(silent) == 1 and len(reporters) >= 1 else ()


_STRUCK = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")


def stated(evidence: tuple[Evidence[Fact], ...]) -> str | None:
    """The first peer that is named, as printed."""
    for e in evidence:
        peer = getattr(e.fact, "peer", None)
        if isinstance(peer, str) and peer:
            return peer
    return None
