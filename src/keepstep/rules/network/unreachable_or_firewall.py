# SPDX-License-Identifier: Apache-2.0
"""NET001: a rank could not reach another one."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, PeerAwaited, PeerLost, ProxyInTheWay, RendezvousTimeout, StepSeen, Why
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
)
from keepstep.rules.network._peers import BY_LIMIT, after_the_end, loopback, stated

_MANY = 3


@rule(
    id="NET001",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(ConnectFailed, RendezvousTimeout, ProxyInTheWay),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=SEEN_BY_OTHER_RANKS,
)
def unreachable_or_firewall(seen: EvidenceSet) -> Findings:
    """A rank could not connect to another, or not all ranks met in time.

    ## What it looks like
    `No route to host`, `Connection refused`, `Connection timed out`, `The client socket has timed out`,
    `Timed out after 1801 seconds waiting for clients. 1/2 clients joined`, `RendezvousTimeoutError`.

    ## Why it happens
    A firewall or security group blocks the port, there is no route between the hosts, the main rank listens on another
    address or port than the one given, or the other rank never started (or had already failed).

    ## How we know
    The kernel gave the reason for the failed connection, or the store counted the members that had joined. "No route"
    and "unreachable" come from the network itself; "refused" and "timed out" may also mean that the peer was not there.

    ## What to do
    Try that address and port from the host that failed. Open the port range between the hosts. Check that every rank
    was started with the same address.

    ## When this is wrong
    If the other rank failed first, its own output says why. That is then the cause, and this only followed from it.
    """
    proxies = seen.all(ProxyInTheWay)
    if proxies:
        yield Found(
            title="a proxy was between the ranks",
            because="traffic between ranks went to a proxy, which does not forward it",
            evidence=tuple(proxies),
            confidence=Confidence.SUPPORTED,
            standing=Standing.MECHANISM,
            fixes=(
                Fix(
                    do="keep cluster traffic away from the proxy",
                    command="unset http_proxy https_proxy; export no_proxy='*'",
                ),
            ),
        )
        return
    failed = [
        e for e in seen.all(ConnectFailed) if not seen.survived(e) and (seen.broken or not after_the_end(seen, e))
    ]
    final = [e for e in failed if e.fact.final and not (_unsaid(e) and seen.all(PeerLost))]
    absent = [e for e in seen.all(RendezvousTimeout) if e.fact.where not in BY_LIMIT and not seen.survived(e)]
    still = any(_says_last(seen, e, len(failed)) for e in failed) and not seen.all(StepSeen)
    if not final and not absent and len(failed) < _MANY and not still:
        return
    chosen = final or failed
    if chosen:
        yield _no_connection(chosen, gave_up=bool(final))
    else:
        yield _not_all(absent, seen.all(PeerAwaited))


def _unsaid(evidence: Evidence[ConnectFailed]) -> bool:
    """The store's client prints the same message for a connection that broke later."""
    return evidence.fact.why is Why.FAILED and evidence.fact.peer in (None, "rendezvous")


def _says_last(seen: EvidenceSet, failed: Evidence[ConnectFailed], tries: int) -> bool:
    """One refused attempt is normal while the other ranks start; one that timed out is not."""
    return seen.is_last_word(failed, 2 if tries > 1 else 0) and (tries > 1 or failed.fact.why is not Why.REFUSED)


_ADDRESS = lazy_pattern(r"[\w.:\[\]%-]{1,200}")
"""What a shell takes for one word; messages also name a peer by what it is for."""


def _no_connection(failed: list[Evidence[ConnectFailed]], *, gave_up: bool) -> Found:
    kinds = {e.fact.why for e in failed}
    peer = stated(tuple(failed))
    target = f" to {peer}" if peer else " to a peer"
    named = peer if peer and _ADDRESS.fullmatch(peer) else "HOST"
    host, _, port = named.rpartition(":") if named.count(":") == 1 else (named, "", "")
    fixes = (
        Fix(
            do="try the connection from the host that failed",
            command=f"nc -vz {host.strip('[]') or 'HOST'} {port or 'PORT'}",
        ),
        Fix(
            do="open the ports between the hosts, and check that the main rank listens on that address",
            command="ss -ltnp",
        ),
    )
    if Why.UNREACHABLE in kinds:
        return Found(
            title=f"no route{target}: the network refused to carry the connection",
            because="the kernel has no route to the address: routing, a firewall, or a wrong address",
            evidence=tuple(failed),
            confidence=Confidence.SUPPORTED,
            standing=Standing.MECHANISM,
            fixes=fixes,
        )
    local = loopback(peer)
    words = "was refused" if Why.REFUSED in kinds else "timed out" if Why.TIMED_OUT in kinds else "failed"
    return Found(
        title=f"the connection{target} {words}",
        because="nothing was listening there"
        + (" on this host" if local else ", or a firewall blocked the connection")
        + "; no evidence shows why",
        evidence=tuple(failed),
        confidence=Confidence.SUPPORTED if gave_up and not local else Confidence.HYPOTHESIS,
        fixes=fixes,
    )


def _not_all(absent: list[Evidence[RendezvousTimeout]], awaited: tuple[Evidence[PeerAwaited], ...]) -> Found:
    counted = next((e.fact for e in absent if e.fact.expected), None)
    count = f"{counted.joined} of {counted.expected}" if counted else "not all"
    return Found(
        title=f"{count} members reached the rendezvous in time",
        because="the others could not connect to it, or were not started; no evidence shows which",
        evidence=(*absent, *awaited[:1]),
        ranks=next((e.fact.missing for e in absent if e.fact.missing), ()),
        confidence=Confidence.HYPOTHESIS,
        fixes=(
            Fix(do="check that every node was started, with the same address, port, id and number of nodes"),
            Fix(do="try the rendezvous address from each node", command="nc -vz $MASTER_ADDR $MASTER_PORT"),
        ),
    )
