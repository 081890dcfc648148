# SPDX-License-Identifier: Apache-2.0
"""What several rules of this family ask about addresses and peers."""

from __future__ import annotations

from keepstep.model.facts import Fact, PeerLost, Phase, PhaseSeen, ProcessExited, StepSeen
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern

_LOOPBACK = lazy_pattern(r"^\[?(?:::ffff:)?(?:127\.|localhost|::1\]?(?:$|:|<)|0\.0\.0\.0)")
_HOSTS_ONLY = lazy_pattern(r"^\[?(?:fe80:|169\.254\.|172\.17\.|192\.168\.122\.)")
_VIRTUAL = lazy_pattern(
    r"^(?:docker|veth|br-|virbr|lo$|tun|tap|cni|flannel|cali|vmnet|vnet|podman|lxc|lxd|kube|nodelocaldns|"
    r"dummy|zt|tailscale|wg)\w*"
)

BY_LIMIT = ("store key", "remote call")
"""Values of ``RendezvousTimeout.where`` for waits with a time limit of the rank's own: the others may be fine."""


def loopback(address: str | None) -> bool:
    """Whether an address reaches only the host that uses it."""
    return bool(address and _LOOPBACK.match(address))


def host_only(address: str | None) -> bool:
    """Whether an address belongs to a link or bridge that other hosts do not share."""
    return bool(address and _HOSTS_ONLY.match(address))


def virtual(interface: str) -> bool:
    """Whether an interface's name is that of a bridge, tunnel or container."""
    return bool(_VIRTUAL.match(interface))


def lost_rank(seen: EvidenceSet, lost: list[Evidence[PeerLost]]) -> tuple[int, ...]:
    """The rank that the others report as lost, where the evidence shows which one it is."""
    all_named = tuple(dict.fromkeys(e.fact.peer_rank for e in lost if e.fact.peer_rank is not None))
    reporters = {r for e in lost if (r := e.who) is not None}
    # a rank that reports a loss itself was still alive then: it is named last
    named = tuple(r for r in all_named if r not in reporters)
    if named and len(named) <= 2:
        return named
    crashed = tuple(
        dict.fromkeys(
            r
            for e in seen.all(ProcessExited)
            if (e.fact.first or e.fact.signal in _CRASH or e.fact.code) and (r := e.fact.rank) is not None
            if r not in reporters and e.fact.code not in _TOLD_TO
        )
    )
    if crashed and len(crashed) <= 2:
        return crashed
    size = seen.world_size or (max(reporters | set(seen.ranks)) + 1 if reporters | set(seen.ranks) else 0)
    silent = tuple(r for r in range(min(size, 4096)) if r not in reporters)
    if len(silent) == 1 and reporters:
        return silent
    return all_named if len(all_named) <= 2 else ()


_TOLD_TO = (143, -15)
_CRASH = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")


def stated(evidence: tuple[Evidence[Fact], ...]) -> str | None:
    """The first peer that the evidence names, as printed."""
    for e in evidence:
        peer = getattr(e.fact, "peer", None)
        if isinstance(peer, str) and peer:
            return peer
    return None


def after_the_end(seen: EvidenceSet, trouble: Evidence[Fact]) -> bool:
    """Whether training was over by then: on this rank, or on its peers at the step that this rank had reached."""
    finished = [e for e in seen.all(PhaseSeen) if e.fact.phase is Phase.FINISHED]
    if any(
        e.origin.source == trouble.origin.source and (e.origin.line or 0) < (trouble.origin.line or 0) for e in finished
    ):
        return True
    beside = (trouble, *seen.near(trouble, PeerLost, before=5, after=5))
    peers = {peer for e in beside if (peer := getattr(e.fact, "peer_rank", None)) is not None}
    reached = {e.who: e.fact.step for e in seen.all(StepSeen) if e.fact.step is not None}
    mine = reached.get(trouble.who) if trouble.who is not None else None
    over = {e.who for e in finished}
    return mine is not None and bool(peers) and all(peer in over and reached.get(peer) == mine for peer in peers)


def at_the_exit(seen: EvidenceSet, waited: Evidence[Fact]) -> bool:
    """Whether an agent whose workers had ended was waiting for the other agents: it logs the time-out and goes on."""
    return any(e.fact.caught for e in seen.raised_around(waited))
