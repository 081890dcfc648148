# SPDX-License-Identifier: Apache-2.0
"""NET183: a variable chooses an interface that is not there, or loopback."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import ClusterSeen, HostSeen, InterfaceWanted
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule


@rule(id="NET183", cause=Cause.NETWORK_WRONG_INTERFACE, needs=(InterfaceWanted,))
def interface_variable(seen: EvidenceSet) -> Iterator[Found]:
    """A variable chooses a network interface that this host does not have, or only loopback.

    ## What it looks like
    NCCL_SOCKET_IFNAME=eth0 on a host whose interface is called ens5: NCCL says `Bootstrap : no socket interface
    found`. Or it chooses `lo`, and ranks on other hosts connect to themselves.

    ## Why it happens
    The setting was copied from another cluster; hosts of one cluster name their interfaces differently.

    ## How we know
    The value is read as NCCL reads it (prefixes, `=` exact, `^` all but) and compared with the interfaces that
    are up and have an address.

    ## What to do
    Name an interface that the hosts share, exclude those that do not serve, or leave the variable out.

    ## When this is wrong
    The interface comes up later.
    """
    several = len({e.fact.machine for e in seen.all(HostSeen)}) > 1 or any(
        len(e.fact.hosts) > 1 for e in seen.all(ClusterSeen)
    )
    for each in seen.all(InterfaceWanted):
        fact = each.fact
        if fact.matches and not (fact.loopback_only and several):
            continue
        what = f"only {', '.join(fact.matches)}" if fact.matches else "no interface"
        choice = f"export {fact.variable}={fact.here[0]}" if fact.here else f"unset {fact.variable}"
        yield Found(
            title=f"{fact.variable}={fact.value} means {what} of {each.origin.source.rpartition(' on ')[2]}",
            because="ranks on other hosts cannot be reached through it"
            if fact.matches
            else "nothing here is called so",
            evidence=(each,),
            fixes=(
                Fix(do="name one that is there", command=choice),
                Fix(do="or leave it out", command=f"unset {fact.variable}"),
            ),
        )
