# SPDX-License-Identifier: Apache-2.0
"""Which descriptions of a cluster have, for every task, an address that means the host itself."""

from __future__ import annotations

from keepstep.model.facts import ClusterSeen, HostSeen, NameLookedUp
from keepstep.rules.api import Evidence, EvidenceSet

LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "0.0.0.0", "::", "::1")


def means_itself(name: str) -> bool:
    """Whether a name or address means the host that uses it, whichever that is."""
    name = name.lower().rstrip(".").removeprefix("::ffff:")
    return name in LOCAL or name.startswith(("127.", "169.254.", "fe80:"))


def resolves_to_itself(seen: EvidenceSet, name: str) -> bool:
    """Whether it does on every host that looked: /etc/hosts maps a host's own name to 127.0.1.1 only on that host."""
    looked = [e.fact.addresses for e in seen.all(NameLookedUp) if e.fact.name == name and e.fact.addresses]
    return bool(looked) and all(means_itself(address) for addresses in looked for address in addresses)


def names_in(fact: ClusterSeen) -> tuple[str, ...]:
    """The hosts of the tasks and the place where they meet, each once."""
    meeting = (fact.meeting.rpartition(":")[0].strip("[]"),) if fact.meeting else ()
    return tuple(dict.fromkeys((*fact.hosts, *meeting)))


def machines(seen: EvidenceSet) -> set[str]:
    return {e.fact.machine for e in seen.all(HostSeen)}


def all_came(seen: EvidenceSet, size: int) -> bool:
    """Whether every rank was seen on a host."""
    return len({e.who for e in seen.all(HostSeen) if e.who is not None}) >= size


def all_tasks_here(seen: EvidenceSet, fact: ClusterSeen) -> bool:
    """Whether every task's address means this host, by loopback or by the host's own name or address.

    MASTER_ADDR and JAX's coordinator are one address, and rank 0's own name is right there: only a loopback counts.
    """
    named = names_in(fact)
    if fact.size < 2 or not named or len(machines(seen)) > 1:
        return False
    if all(means_itself(name) or resolves_to_itself(seen, name) for name in named):
        return True
    return len(fact.members) > 1 and all(_is_this_host(seen, name) for name in named)


def _is_this_host(seen: EvidenceSet, name: str) -> bool:
    own = {text for e in seen.all(HostSeen) for text in (e.fact.name, *e.fact.addresses)}
    looked = [e.fact.addresses for e in seen.all(NameLookedUp) if e.fact.name == name and e.fact.addresses]
    found = {address for addresses in looked for address in addresses}
    return name in own or means_itself(name) or (bool(found) and all(a in own or means_itself(a) for a in found))


def first_of_each(seen: EvidenceSet) -> list[Evidence[ClusterSeen]]:
    """One process per description: the same description need not be reported twice."""
    found: dict[tuple[object, ...], Evidence[ClusterSeen]] = {}
    for each in seen.all(ClusterSeen):
        found.setdefault((each.fact.said_by, each.fact.hosts, each.fact.meeting), each)
    return list(found.values())
