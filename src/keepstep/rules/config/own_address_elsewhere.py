# SPDX-License-Identifier: Apache-2.0
"""CFG114: the address given for a process is not one of its host's."""

from __future__ import annotations

from keepstep.model.facts import ClusterSeen, HostSeen, NameLookedUp
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.asking.process_endings import host_of


@rule(id="CFG114", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ClusterSeen,))
def own_address_elsewhere(seen: EvidenceSet) -> Findings:
    """The address that a process should listen on does not belong to its host.

    ## What it looks like
    TF_CONFIG's entry for this task, or MASTER_ADDR on rank 0, names an address that no interface of this host has. The
    other ranks connect to another machine, or to nothing.

    ## Why it happens
    The index and the host were mixed up, an address changed, or the process runs in a container or behind NAT with a
    different address.

    ## How we know
    The address, resolved on this host, is compared with the addresses of all its interfaces.

    ## What to do
    Give each process the index of the entry that names its own host.

    ## When this is wrong
    A load balancer, a Kubernetes service or port forwarding leads from that address to this host.
    """
    for each in seen.all(ClusterSeen):
        name = each.fact.own_host
        here = next((e for e in seen.all(HostSeen) if e.rank == each.rank and host_of(e) == host_of(each)), None)
        if (
            name is None
            or here is None
            or name.lower() in ("localhost", "0.0.0.0", "::")
            or name.lower() == here.fact.name.lower()
        ):
            continue
        looked = [e for e in seen.all(NameLookedUp) if e.fact.name == name and e.rank == each.rank]
        addresses = looked[0].fact.addresses if looked else (name,)
        local = ("127.", "::1")
        if not addresses or any(a in here.fact.addresses or a.startswith(local) for a in addresses):
            continue
        mine = [a for a in here.fact.addresses if not a.startswith((*local, "fe80:"))]
        yield Found(
            title=f"{each.fact.own} should listen on {name}, which is not this host ({here.fact.name})",
            because=f"this host has {listing(mine[:3]) or 'no address but loopback'}; "
            f"connections to {name} reach another machine",
            evidence=(each, here, *looked),
            fixes=(
                Fix(do="set the task index to the entry that names this host, or correct the entry"),
                Fix(do="list this host's addresses", command="ip -brief address"),
            ),
        )
