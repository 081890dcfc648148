# SPDX-License-Identifier: Apache-2.0
"""CFG002: an address that means "this host" was given to other hosts."""

from __future__ import annotations

import re

from keepstep.model.facts import (
    AddressIsLocal,
    AddressMap,
    ClusterSpecInvalid,
    ConnectFailed,
    Fact,
    PeerAwaited,
    PortTaken,
    RendezvousTimeout,
    ServerStarted,
    StepSeen,
    Why,
    WorldSeen,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    everyone,
    lazy_pattern,
    ranks_of,
    rule,
)
from keepstep.rules.asking.fallout import FALLOUT
from keepstep.rules.asking.late_arrivals import came_too_late

_LOOPBACK = lazy_pattern(
    r"^\[?(?:ip6-)?(?:localhost|127\.\d+\.\d+\.\d+|::1|::ffff:127\.\d+\.\d+\.\d+)\]?(?::(?P<port>\d+))?$", re.I
)
_HOSTNAME_ENTRY = lazy_pattern(r"^\[?(?:::ffff:)?127\.0\.[12]\.1\b")

REGISTRATION = "the coordination service"
"""Whom a task of TensorFlow calls first: the first task."""


@rule(
    id="CFG002",
    cause=Cause.CONFIG_LOCALHOST_ADDRESS,
    needs=(AddressMap, AddressIsLocal, ConnectFailed),
    explains=(
        *FALLOUT,
        Cause.CONFIG_CLUSTER_SPEC,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_PORT_IN_USE,
        Cause.NETWORK_WRONG_INTERFACE,
    ),
)
def localhost_address(seen: EvidenceSet) -> Findings:
    """An address that means "this host" was given to other hosts.

    ## What it looks like
    A cluster of several hosts lists `localhost` or `127.x.y.z` for another task. Workers wait for each other
    (`CreateSession still waiting`), refuse connections, or talk to themselves and miss the other task's devices.
    Or the host's own name resolves to `127.0.1.1`, and that address is passed on.

    ## Why it happens
    Everything in 127.0.0.0/8 is the host itself. Debian writes `127.0.1.1 hostname` into /etc/hosts.

    ## How we know
    The process prints the addresses of all tasks. TensorFlow prints its own as `localhost:port`, which is normal. A
    second loopback address beside real ones, or two tasks on one loopback port, is not. Nor is a first task that waits
    at a loopback address while another one, which has started too, cannot reach it.

    ## What to do
    Give every task an address that the other hosts can reach.

    ## When this is wrong
    All tasks run on one host, each on its own port. Then loopback is right.
    """
    trouble: tuple[Evidence[Fact], ...] = (
        *seen.all(PeerAwaited),
        *seen.all(ConnectFailed),
        *seen.all(ClusterSpecInvalid),
        *seen.all(RendezvousTimeout),
    )
    maps = _suspicious(seen)
    if maps and (trouble or seen.broken):
        address, evidence = maps
        yield Found(
            title=f"another task's address is this host itself: {address}",
            because="127.0.0.0/8 and localhost never leave the host, so the other task cannot be reached there",
            evidence=(*evidence, *trouble[:2]),
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    if served := _served_at_itself(seen):
        yield served
        return
    said = tuple(e for e in seen.all(AddressIsLocal) if not seen.survived(e))
    sure = tuple(e for e in said if e.fact.certain)
    distant = any(not _LOOPBACK.match(getattr(e.fact, "peer", None) or "") for e in trouble)
    refused = any(e.fact.address for e in said) and any(
        _LOOPBACK.match(e.fact.peer or "") for e in seen.all(ConnectFailed) if not seen.survived(e)
    )
    # a later rank looks for rank 0 on its own host, and rank 0 appears nowhere here
    alone = refused and 0 not in ranks_of(seen.items) and any(n > 0 for n in ranks_of(said))
    if sure or (said and trouble and (distant or refused or _several_hosts(seen))):
        yield Found(
            title="a loopback address was given to other hosts",
            because="the host's own name or address resolves to the loopback address",
            evidence=sure or said,
            confidence=Confidence.ESTABLISHED if sure else Confidence.SUPPORTED if alone else Confidence.HYPOTHESIS,
            standing=None if sure else Standing.EXCEPTION if alone else Standing.SYMPTOM,
            fixes=_FIXES,
        )
        return
    yield from _dialled(seen)


def _served_at_itself(seen: EvidenceSet) -> Found | None:
    """TensorFlow's first task waits for the others at a loopback address, and another one cannot reach it there."""
    servers = {e.who: e for e in seen.all(ServerStarted) if e.who is not None}
    first = servers.get(0)
    missed = tuple(
        e
        for e in seen.all(ConnectFailed)
        if e.who and e.who in servers and e.fact.why is Why.TIMED_OUT and e.fact.peer == REGISTRATION
    )
    waits = tuple(e for e in (*seen.all(PeerAwaited), *seen.all(RendezvousTimeout)) if e.who == 0)
    if first is None or not _LOOPBACK.match(first.fact.address) or not missed or not waits:
        return None
    if came_too_late(seen) or any(e.who in ranks_of(missed) for e in seen.all(StepSeen)):
        return None  # they were there at different times, or met there once
    others = [e for rank, e in servers.items() if rank != 0]
    real = tuple(e for e in others if not _LOOPBACK.match(e.fact.address))
    # older releases of TensorFlow call every server localhost, whatever their cluster says
    told = all(e.fact.address.lower().startswith("localhost:") for e in servers.values())
    return Found(
        title=f"the first task waits at {first.fact.address}, which the other hosts take for themselves",
        because="it waited for the others while they tried to reach it, "
        + ("and they have addresses of other hosts" if real else "and nothing stands between a host and its loopback"),
        evidence=(first, *real[:1], *missed[:2], *waits[:1]),
        ranks=ranks_of(missed),
        confidence=Confidence.SUPPORTED if real or not told else Confidence.HYPOTHESIS,
        fixes=_FIXES,
    )


def _dialled(seen: EvidenceSet) -> Findings:
    """What failed connections to a loopback address say, where no process names the address as its own."""
    dialled = tuple(e for e in seen.all(ConnectFailed) if e.fact.peer and not seen.survived(e))
    entry = tuple(e for e in dialled if _HOSTNAME_ENTRY.match(e.fact.peer or ""))
    several = _several_hosts(seen)
    local = tuple(e for e in dialled if _LOOPBACK.match(e.fact.peer or ""))
    given_out = tuple(e for e in local if e.fact.given_out)
    served = _served(seen, local)
    called = () if served else _all_called_themselves(seen)
    if called:
        yield Found(
            title=f"{len(called)} processes tried to meet at a loopback address and did not find each other",
            because="all of them ran and tried to connect, so they are on several hosts and each connected to its own",
            evidence=called,
            ranks=tuple(rank for rank in ranks_of(called) if rank > 0),
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    if entry or (local and (several or served)) or given_out:
        certain = bool(entry or served) or several
        yield Found(
            title=f"a rank tried to connect to a loopback address: {(entry or given_out or local)[0].fact.peer}",
            because="the loopback address is the rank's own host"
            + (", and the main rank was waiting on another host" if served else ": a peer's name resolves to it"),
            evidence=(*(entry or given_out or local), *served),
            ranks=ranks_of(local) if served else None,
            confidence=Confidence.SUPPORTED if certain else Confidence.HYPOTHESIS,
            standing=None if certain else Standing.SYMPTOM,
            fixes=_FIXES,
        )


def _served(seen: EvidenceSet, local: tuple[Evidence[ConnectFailed], ...]) -> tuple[Evidence[RendezvousTimeout], ...]:
    """The main rank's messages that it counted the members, while others failed to connect to their own loopback."""
    callers = ranks_of(local)
    if not callers or 0 in callers:
        return ()
    return tuple(e for e in seen.all(RendezvousTimeout) if e.who == 0 and (e.fact.joined or e.fact.missing))


def _all_called_themselves(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """Evidence that every rank of the world, each under its own number, connected to the loopback and failed."""
    said = {e.who: e for e in seen.all(WorldSeen) if _LOOPBACK.match(e.fact.role or "")}
    indices = [e.fact.index for e in seen.all(WorldSeen) if e.fact.index is not None]
    gave_up = {e.who for e in seen.all(ConnectFailed) if e.fact.final and not seen.survived(e)}
    world = set(everyone(seen.world_size or 0))
    if len(world) < 2 or set(said) != world or gave_up != world or {*indices} != world or seen.all(PortTaken):
        return ()
    if any(e.who in world for e in seen.all(StepSeen)) or came_too_late(seen):
        return ()  # they met there once, or were there at different times
    return tuple(said.values())


def _several_hosts(seen: EvidenceSet) -> bool:
    return len({e.rank.node for e in seen.items if e.rank is not None and e.rank.node}) > 1


def _suspicious(seen: EvidenceSet) -> tuple[str, tuple[Evidence[AddressMap], ...]] | None:
    """Another task's loopback address in one process's view of the cluster."""
    views: dict[tuple[str, str], list[Evidence[AddressMap]]] = {}
    for each in seen.all(AddressMap):
        view = views.setdefault(each.origin.writer, [])
        view[:] = [*(e for e in view if e.fact.job != each.fact.job), each]
    for view in views.values():
        addresses = [a for e in view for a in e.fact.addresses]
        local = [(a, m["port"]) for a in addresses if (m := _LOOPBACK.match(a))]
        if len(local) < 2:
            continue
        ports = [port for _, port in local]
        mixed = len(local) < len(addresses)
        if mixed or (len(set(ports)) < len(ports) and len(set(addresses)) == len(addresses)):
            odd = next((a for a, _ in local if not a.startswith("localhost")), local[-1][0])
            return odd, tuple(e for e in view if any(_LOOPBACK.match(a) for a in e.fact.addresses))
    return None


_FIXES = (
    Fix(do="give every task an address that the other hosts can reach", command="hostname -I"),
    Fix(do="remove the host's name from the loopback lines in /etc/hosts", command="getent hosts $(hostname)"),
)
