# SPDX-License-Identifier: Apache-2.0
"""What several rules of the network check ask about the links between hosts."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keepstep.rules.api import Evidence, EvidenceSet, Fact, Fix, LinkProbed, Reached, Safety, count, listing

DROPPED = (Reached.NO_ANSWER, Reached.SILENT)
REJECTED = (Reached.REFUSED, Reached.REJECTED, Reached.RESET)
MOST_PAIRS = 12
Link = tuple[str, str]


@dataclass(frozen=True)
class Blockage:
    """Links that cannot be opened, all for the same reason."""

    links: tuple[Link, ...]
    evidence: tuple[Evidence[LinkProbed], ...]
    into: str | None = None
    """Set where all links to this host fail."""
    out_of: str | None = None
    """Set where all links from this host fail. With neither set, the links are one pair of hosts."""
    one_way: bool = False
    """The links in the opposite direction work."""

    @property
    def dropped(self) -> bool:
        return any(e.fact.reached in DROPPED for e in self.evidence)

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.links))

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(target for _, target in self.links))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks at both ends, or only those of the host that all the links share."""
        found = [e.fact.target_rank for e in self.evidence if self.out_of is None]
        found += [e.fact.source_rank for e in self.evidence if self.into is None]
        return tuple(sorted({rank for rank in found if rank is not None}))


def literal(name: str) -> bool:
    """Whether the job gives an address instead of a name."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def misled(fact: LinkProbed) -> bool:
    """Whether the address led to another program, or does not belong to the target and led nowhere."""
    if fact.reached is Reached.STRANGER:
        return True
    return not fact.owned and not fact.usable and fact.reached is not Reached.UNRESOLVED


def blockages(seen: EvidenceSet) -> list[Blockage]:
    """Every link that cannot be opened, once: under its host where all of the host's links fail, else as a pair."""
    tried: dict[Link, list[Evidence[LinkProbed]]] = defaultdict(list)
    for each in seen.all(LinkProbed):
        if not misled(each.fact) and each.fact.reached is not Reached.UNRESOLVED:
            tried[each.fact.source, each.fact.target].append(each)
    failed = {link: [e for e in found if not e.fact.usable] for link, found in tried.items()}
    failed = {link: found for link, found in failed.items() if found}
    left = dict(failed)
    blocked: list[Blockage] = []
    for host in dict.fromkeys(target for _, target in failed):
        links = [link for link in tried if link[1] == host]
        if len(links) > 1 and all(link in failed for link in links):
            back = [(b, a) for a, b in links]
            blocked.append(_blockage(links, left, into=host, one_way=all(link not in failed for link in back)))
    for host in dict.fromkeys(source for source, _ in left):
        links = [link for link in tried if link[0] == host]
        mine = [link for link in links if link in left]
        if len(mine) > 1 and all(link in failed for link in links):
            blocked.append(_blockage(mine, left, out_of=host, one_way=all((b, a) not in failed for a, b in mine)))
    for link in list(left):
        if link in left:
            both = [each for each in (link, link[::-1]) if each in left]
            blocked.append(_blockage(both, left, one_way=link[::-1] in tried and link[::-1] not in failed))
    return blocked


def _blockage(
    links: list[Link],
    left: dict[Link, list[Evidence[LinkProbed]]],
    into: str | None = None,
    out_of: str | None = None,
    one_way: bool = False,
) -> Blockage:
    evidence = [e for link in links for e in left.pop(link, [])]
    return Blockage(tuple(links), tuple(evidence), into, out_of, one_way)


def ports(evidence: Iterable[Evidence[LinkProbed]]) -> str:
    """``port 2222``, ``ports 2222 and 2223``, or words for ports that are not the job's own."""
    pieces = list(evidence)
    numbers = sorted({e.fact.port for e in pieces if e.fact.of_the_job})
    if not numbers:
        return "ephemeral ports (which Gloo and NCCL use)"
    if any(not e.fact.of_the_job for e in pieces):
        return f"any port that was tried ({listing(str(number) for number in numbers[:6])} and an ephemeral one)"
    return f"port{'s' if len(numbers) > 1 else ''} {listing(str(number) for number in numbers[:6])}"


def shown(found: list[Blockage]) -> Iterator[tuple[Blockage, str]]:
    """Whole hosts first, then at most ``MOST_PAIRS`` pairs; the text beside the last pair counts those left out."""
    hosts = [each for each in found if each.into or each.out_of]
    pairs = [each for each in found if each not in hosts]
    left_out = len(pairs) - MOST_PAIRS
    for each in hosts:
        yield each, ""
    for n, each in enumerate(pairs[:MOST_PAIRS], 1):
        yield each, f" (and {count(left_out, 'more pair')})" if n == MOST_PAIRS and left_out > 0 else ""


def opened(seen: EvidenceSet, blocked: Blockage) -> tuple[Fix, ...]:
    """Fixes that let the packets through, for the common firewalls."""
    at = {e.fact.target: e.fact.address for e in seen.all(LinkProbed) if e.fact.address and e.fact.owned}
    sources = [at[host] for host in blocked.sources if host in at][:20]
    who = listing(blocked.targets[:4]) + (" and others" if len(blocked.targets) > 4 else "")
    from_ = f" -s {','.join(sources)}" if sources else ""
    numbers = sorted({e.fact.port for e in blocked.evidence if e.fact.of_the_job})
    any_port = any(not e.fact.of_the_job for e in blocked.evidence)
    to = (
        ""
        if any_port or not numbers
        else f" --dport {numbers[0]}"
        if len(numbers) == 1
        else f" -m multiport --dports {','.join(map(str, numbers[:15]))}"
    )
    zone = (
        "\n".join(f"firewall-cmd --permanent --zone=trusted --add-source={source}" for source in sources[:4])
        or "firewall-cmd --permanent --zone=trusted --add-source=ADDRESS"
    )
    span = "all TCP ports" if any_port else f"TCP {ports(blocked.evidence)}"
    return (
        Fix(
            do=f"allow the connections on {who}, with iptables",
            command=f"iptables -I INPUT -p tcp{from_}{to} -j ACCEPT",
            safety=Safety.NEEDS_OWNER,
        ),
        Fix(do=f"or with firewalld on {who}", command=f"{zone}\nfirewall-cmd --reload", safety=Safety.NEEDS_OWNER),
        Fix(
            do=f"in a cloud, let the security group or network policy of {who} allow {span} from the job's hosts",
            safety=Safety.NEEDS_OWNER,
        ),
    )


def ranks_at(evidence: Iterable[Evidence[Fact]]) -> tuple[int, ...]:
    """The ranks at both ends of the links."""
    found: set[int] = set()
    for each in evidence:
        for name in ("source_rank", "target_rank"):
            rank = getattr(each.fact, name, None)
            if rank is not None:
                found.add(rank)
    return tuple(sorted(found))
