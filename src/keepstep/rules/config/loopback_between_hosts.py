# SPDX-License-Identifier: Apache-2.0
"""CFG113: an address that means the host itself, in a cluster of several hosts."""

from __future__ import annotations

from keepstep.model.facts import ClusterSeen, HostSeen, NameLookedUp
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, listing, rule

LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "0.0.0.0", "::", "::1")


def _means_itself(name: str) -> bool:
    return name.lower().rstrip(".") in LOCAL or name.startswith(("127.", "169.254.", "fe80:"))


def _resolves_to_itself(seen: EvidenceSet, name: str) -> bool:
    """Whether it does on every host that looked: /etc/hosts maps a host's own name to 127.0.1.1 only on that host."""
    looked = [e.fact.addresses for e in seen.all(NameLookedUp) if e.fact.name == name and e.fact.addresses]
    return bool(looked) and all(_means_itself(address) for addresses in looked for address in addresses)


def _first_of_each(seen: EvidenceSet) -> list[Evidence[ClusterSeen]]:
    """One process per description: the same description need not be reported twice."""
    found: dict[tuple[object, ...], Evidence[ClusterSeen]] = {}
    for each in seen.all(ClusterSeen):
        found.setdefault((each.fact.said_by, each.fact.hosts, each.fact.meeting), each)
    return list(found.values())


@rule(id="CFG113", cause=Cause.CONFIG_LOCALHOST_ADDRESS, needs=(ClusterSeen,))
def loopback_between_hosts(seen: EvidenceSet) -> Findings:
    """A cluster of several hosts lists an address that means the host itself.

    ## What it looks like
    TF_CONFIG or MASTER_ADDR has `localhost`, `127.0.0.1`, `0.0.0.0` or `169.254.x.y` while processes run on several
    hosts, or a host's own name that its /etc/hosts maps to 127.0.1.1.

    ## Why it happens
    A setting that was right for one host was used for several.

    ## How we know
    The processes run on several hosts, or other addresses in the same list are real ones.

    ## What to do
    Use an address that the other hosts can reach.

    ## When this is wrong
    All processes run on one host.
    """
    machines = {e.fact.machine for e in seen.all(HostSeen)}
    for each in _first_of_each(seen):
        fact = each.fact
        meeting = (fact.meeting.rpartition(":")[0].strip("[]"),) if fact.meeting else ()
        named = tuple(dict.fromkeys((*fact.hosts, *meeting)))
        local = [name for name in named if _means_itself(name) or _resolves_to_itself(seen, name)]
        if not local or fact.size < 2 or (len(machines) < 2 and len(local) == len(named)):
            continue
        yield Found(
            title=f"{fact.said_by} has {listing(local[:3])} in a cluster of several hosts",
            because="that address never leaves the host that uses it, so other hosts connect to themselves and wait",
            evidence=(each, *(e for e in seen.all(NameLookedUp) if e.fact.name in local)),
            fixes=(
                Fix(
                    do="list this host's addresses, and use one that the other hosts can reach",
                    command="ip -brief address",
                ),
                Fix(
                    do="or take the first host's name from the scheduler",
                    command="export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
                ),
            ),
        )
