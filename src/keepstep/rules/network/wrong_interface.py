# SPDX-License-Identifier: Apache-2.0
"""NET006: the library used, or was configured to use, a network interface that does not lead to the other hosts."""

from __future__ import annotations

import re

from keepstep.model.facts import (
    CollectiveTimeout,
    ConnectFailed,
    Fact,
    InterfaceMissing,
    InterfaceUsed,
    PeerLost,
    RanksMissing,
    Why,
    WorldSeen,
)
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.network._peers import host_only, loopback, virtual


@rule(
    id="NET006",
    cause=Cause.NETWORK_WRONG_INTERFACE,
    needs=(InterfaceMissing, InterfaceUsed, ConnectFailed),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def wrong_interface(seen: EvidenceSet) -> Findings:
    """The selected network interface does not exist, or does not lead to the other hosts.

    ## What it looks like
    `Bootstrap : no socket interface found`, `Unable to find address for: eth0`. Or NCCL prints
    `Using docker0:172.17.0.1`, or names a `veth` with an `fe80::` address, and then connections to such addresses
    fail.

    ## Why it happens
    `NCCL_SOCKET_IFNAME` or `GLOO_SOCKET_IFNAME` names an interface that this host does not have. Or neither is set, and
    the library picks a container bridge, which no other host can reach.

    ## How we know
    The library found no interface. Or it says which one it picked, or where it tried to connect, and that is a bridge,
    a tunnel or a link-local address.

    ## What to do
    On every host, name the interface that leads to the other hosts.

    ## When this is wrong
    With all ranks on one host, a bridge or loopback works, and the failure has another cause.
    """
    missing = [e for e in seen.all(InterfaceMissing) if not seen.survived(e)]
    fixes = (
        Fix(do="find the interface that leads to the other hosts", command="ip -br addr; ip route get OTHER_HOST"),
        Fix(do="name it, on every host", command="export NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0"),
    )
    if missing:
        name = next((e.fact.name for e in missing if e.fact.name), None)
        asked = next((e.fact.name for e in seen.all(InterfaceUsed) if e.fact.address is None), None)
        yield Found(
            title=f"no network interface {name or asked or ''}".rstrip() + " was found on this host",
            because="the library found no interface with that name, or none that it may use",
            evidence=tuple(missing),
            fixes=fixes,
        )
        return
    failed = [e for e in seen.all(ConnectFailed) if not seen.survived(e)]
    elsewhere = _another_network(seen, failed)
    if elsewhere:
        address, met = elsewhere
        yield Found(
            title=f"a rank advertised {address}, which the others cannot reach, though they had met at {met.fact.role}",
            because="the ranks met over one network and then used addresses of another: the host's name or "
            "interface setting points to the wrong network",
            evidence=(*(e for e in failed if e.fact.given_out), met),
            confidence=Confidence.SUPPORTED,
            fixes=fixes,
        )
        return
    aimed = [e for e in failed if host_only(e.fact.peer) or (_by_nccl(e.fact.peer) and _several_hosts(seen))]
    used = [
        e
        for e in seen.all(InterfaceUsed)
        if any(virtual(n) for n in e.fact.name.split(",")) and not e.fact.name.startswith("^")
    ]
    trouble: list[Evidence[Fact]] = list(failed) or [
        *seen.all(PeerLost),
        *seen.all(CollectiveTimeout),
        *seen.all(RanksMissing),
    ]
    only = [e for e in used if all(virtual(n) for n in e.fact.name.split(","))]
    if (
        aimed
        or (used and failed)
        or (only and trouble and not all(n == "lo" for e in only for n in e.fact.name.split(",")))
    ):
        name = next((n for e in used for n in e.fact.name.split(",") if virtual(n)), None)
        where = f"interface {name}" if name else f"address {aimed[0].fact.peer}" if aimed else "an interface"
        yield Found(
            title=f"the library used {where}, which other hosts cannot reach",
            because="connections used a bridge, tunnel, link-local or loopback address, and failed",
            evidence=(*aimed, *used[:2], *failed[:2]) if aimed or used or failed else tuple(trouble[:2]),
            confidence=Confidence.SUPPORTED,
            fixes=fixes,
        )


_MOST_ON_A_HOST = 8


def _by_nccl(peer: str | None) -> bool:
    """Whether NCCL itself chose the loopback: it prints ports as ``<port>``, and addresses of interfaces, not names."""
    return loopback(peer) and "<" in (peer or "")


def _several_hosts(seen: EvidenceSet) -> bool:
    nodes = {e.rank.node for e in seen.items if e.rank is not None and e.rank.node}
    return len(nodes) > 1 or max(seen.ranks, default=0) >= _MOST_ON_A_HOST or (seen.world_size or 0) > _MOST_ON_A_HOST


def _another_network(
    seen: EvidenceSet, failed: list[Evidence[ConnectFailed]]
) -> tuple[str, Evidence[WorldSeen]] | None:
    """An address that a peer advertised and no rank reaches, while the ranks met at an address of another network."""
    met = [e for e in seen.all(WorldSeen) if _network(e.fact.role)]
    for each in failed:
        if each.fact.given_out and each.fact.why is Why.UNREACHABLE and (given := _network(each.fact.peer)):
            other = [e for e in met if _network(e.fact.role) != given]
            if other and len(other) == len(met):
                return (each.fact.peer or "").partition("]")[0].strip("["), other[0]
    return None


def _network(address: str | None) -> str | None:
    """The first two numbers of an IPv4 address: the hosts of one cluster share at least these."""
    found = re.match(r"\[?(?P<network>\d{1,3}\.\d{1,3})\.\d{1,3}\.\d{1,3}\b", address or "")
    return found["network"] if found and not loopback(address) else None
