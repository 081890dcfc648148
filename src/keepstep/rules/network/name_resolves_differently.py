# SPDX-License-Identifier: Apache-2.0
"""NET181: a name resolves to different addresses on different hosts."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, HostSeen, NameLookedUp, rule


@rule(id="NET181", cause=Cause.NETWORK_DNS, needs=(NameLookedUp,))
def name_resolves_differently(seen: EvidenceSet) -> Findings:
    """A host name of the cluster resolves to different addresses on different hosts.

    ## What it looks like
    One host has a different entry in /etc/hosts, or another DNS server, and connects to another machine than the rest.

    ## Why it happens
    An entry is outdated, two networks use the same name, or a host's own name resolves to 127.0.1.1.

    ## How we know
    Each process asked its own resolver, and the answers have nothing in common.

    ## What to do
    Make the name resolve to the same address everywhere, or use addresses.

    ## When this is wrong
    The addresses all belong to one host with several networks.
    """
    own = {e.fact.name.lower() for e in seen.all(HostSeen)}
    for group in seen.groups(NameLookedUp, by=lambda fact: fact.name):
        answers = [
            e for e in group if e.fact.addresses and not all(a.startswith(("127.", "::1")) for a in e.fact.addresses)
        ]
        shared = set.intersection(*(set(e.fact.addresses) for e in answers)) if answers else set()
        belongs = [
            set(e.fact.addresses) for e in seen.all(HostSeen) if e.fact.name.lower() == group[0].fact.name.lower()
        ]
        if (
            len(answers) < 2
            or shared
            or any(all(set(e.fact.addresses) & addresses for e in answers) for addresses in belongs)
        ):
            continue
        first, other = (
            answers[0],
            next(e for e in answers if not set(e.fact.addresses) & set(answers[0].fact.addresses)),
        )
        yield Found(
            title=f"{first.fact.name} is {first.fact.addresses[0]} on one host, {other.fact.addresses[0]} on another",
            because="they would connect to different machines"
            + ("" if first.fact.name.lower() in own else ", and no host that was checked has this name"),
            evidence=(first, other),
            fixes=(
                Fix(
                    do="compare the entries on both hosts",
                    command=f"getent hosts {first.fact.name}; grep {first.fact.name} /etc/hosts",
                ),
            ),
        )
