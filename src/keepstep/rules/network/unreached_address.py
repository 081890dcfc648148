# SPDX-License-Identifier: Apache-2.0
"""NET120: a host gives out an address that the other hosts cannot reach, though it has one that they reach."""

from __future__ import annotations

from keepstep.model.facts import AddressChosen, AddressTried, ConnectFailed
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    count,
    rule,
)


@rule(
    id="NET120",
    cause=Cause.NETWORK_WRONG_INTERFACE,
    needs=(AddressChosen,),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.USER_CODE_EXCEPTION),
)
def unreached_address(seen: EvidenceSet) -> Findings:
    """A host gives its peers an address of an interface that does not lead to them.

    ## What it looks like
    `Gloo connectFullMesh failed with ... No route to host, remote=[198.19.7.1]:56240`, or the same with
    `Connection refused` and `127.0.1.1`. The ranks had met before, and the hosts reach each other in other ways.

    ## Why it happens
    gloo listens at the address of the host's own name, unless GLOO_SOCKET_IFNAME says otherwise. In `/etc/hosts` or DNS
    that name leads to another network (management, storage), or to loopback.

    ## How we know
    After the attempt had failed, each host tried all addresses of the others. A rank failed to connect to the address
    that its peer's host gives out. Without such a failed connection this is only a warning.

    ## What to do
    Name the interface that leads to the other hosts. `keepstep run` does so by itself on several nodes.

    ## When this is wrong
    The route was missing only for a moment, at both times.
    """
    failed = [e for e in seen.all(ConnectFailed) if not seen.survived(e)]
    found = [_of(seen, chosen) for chosen in seen.all(AddressChosen)]
    hosts = [each for each in found if each is not None]
    if not hosts:
        return
    aimed = [e for e in failed if any(_aims_at(e.fact.peer, chosen.fact.address) for chosen, _, _ in hosts)]
    hosts.sort(key=lambda each: not any(_aims_at(e.fact.peer, each[0].fact.address) for e in aimed))
    chosen, good, _ = hosts[0]
    others = f" ({count(len(hosts) - 1, 'other host')} likewise)" if len(hosts) > 1 else ""
    name = good.fact.interface
    yield Found(
        title=f"{chosen.fact.host} gives out {chosen.fact.address}, which other hosts cannot reach; "
        f"they reach {good.fact.address} ({name})",
        because=f"{chosen.fact.by} leads to that address{others}; all addresses were tried from the other hosts",
        evidence=(*aimed[:4], chosen, good, *(each for _, _, bad in hosts for each in bad)),
        severity=None if aimed else Severity.WARNING,
        confidence=Confidence.ESTABLISHED if aimed else Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="name the interface that works",
                command=f"export GLOO_SOCKET_IFNAME={name} NCCL_SOCKET_IFNAME={name}",
            ),
            Fix(
                do="or let the host's name lead to that address, on that host",
                command=f"getent ahosts {chosen.fact.host}; grep {chosen.fact.host} /etc/hosts",
            ),
        ),
    )


_Trial = tuple[Evidence[AddressChosen], Evidence[AddressTried], tuple[Evidence[AddressTried], ...]]


def _of(seen: EvidenceSet, chosen: Evidence[AddressChosen]) -> _Trial | None:
    """The address that a host gives out, one that works, and who could not reach the first; None if all is well."""
    tried = [e for e in seen.all(AddressTried) if e.fact.target == chosen.fact.host]
    bad = tuple(e for e in tried if e.fact.address == chosen.fact.address and not e.fact.usable)
    if not bad and not chosen.fact.loopback:
        return None
    broken = {e.fact.address for e in tried if not e.fact.usable}
    good = next((e for e in tried if e.fact.address not in broken and e.fact.address != chosen.fact.address), None)
    return (chosen, good, bad) if good is not None else None


def _aims_at(peer: str | None, address: str) -> bool:
    """Whether a connection to ``peer`` (``[198.19.7.1]:56240``, ``198.19.7.1:56240``) was one to this address."""
    return bool(peer) and (peer == address or f"[{address}]" in (peer or "") or (peer or "").startswith(f"{address}:"))
