# SPDX-License-Identifier: Apache-2.0
"""NET183: a variable selects an interface that does not exist, or only loopback."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, HostSeen, InterfaceWanted, rule
from keepstep.rules.asking.process_endings import host_of


@rule(id="NET183", cause=Cause.NETWORK_WRONG_INTERFACE, needs=(InterfaceWanted,))
def interface_variable(seen: EvidenceSet) -> Findings:
    """A variable selects a network interface that this host does not have, or only loopback.

    ## What it looks like
    With NCCL_SOCKET_IFNAME=eth0 on a host whose interface is called ens5, NCCL prints `Bootstrap : no socket interface
    found`. With `lo`, ranks on other hosts connect to themselves.

    ## Why it happens
    The setting was copied from another cluster, or the hosts of one cluster name their interfaces differently.

    ## How we know
    The value is read as NCCL reads it (a prefix, `=` for an exact name, `^` to exclude) and compared with the
    interfaces that are up and have an address.

    ## What to do
    Name an interface that all hosts have, exclude those that lead nowhere, or unset the variable.

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
            title=f"{fact.variable}={fact.value} selects {what} of {host_of(each)}",
            because="ranks on other hosts cannot be reached through it"
            if fact.matches
            else "no interface of this host has this name",
            evidence=(each,),
            fixes=(
                Fix(do="name an interface that exists", command=choice),
                Fix(do="or unset the variable", command=f"unset {fact.variable}"),
            ),
        )
