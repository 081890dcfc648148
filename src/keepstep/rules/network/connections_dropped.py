# SPDX-License-Identifier: Apache-2.0
"""NET104: packets between two hosts of the job are dropped."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed
from keepstep.core.finding import Found
from keepstep.core.rule import rule
from keepstep.core.wording import count
from keepstep.rules.network._links import MOST_PAIRS, Blockage, blockages, opened, ports


@rule(id="NET104", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def connections_dropped(seen: EvidenceSet) -> Iterator[Found]:
    """Connections between hosts of the job get no answer: a firewall drops them.

    ## What it looks like
    `Connection timed out` after minutes, or a job that hangs while it starts, because the frameworks try again and again.

    ## Why it happens
    A firewall on the target host, a security group or a network policy discards the packets without a word.

    ## How we know
    The process of the check on the target host said that it listens on that port, both processes talked to rank 0 at
    the same time, and still no answer came to two attempts.

    ## What to do
    Add the rule that is printed, on the host that is named.

    ## When this is wrong
    When the route between the two hosts is broken, or only the packets back are lost, it looks the same.
    """
    found = [each for each in blockages(seen) if each.dropped and (not each.one_way or each.into or each.out_of)]
    pairs = [each for each in found if not each.into and not each.out_of]
    for each in (*(e for e in found if e not in pairs), *pairs[:MOST_PAIRS]):
        rest = len(pairs) - MOST_PAIRS if each in pairs[MOST_PAIRS - 1 : MOST_PAIRS] else 0
        yield Found(
            title=_title(each) + (f" (and {count(rest, 'more pair')})" if rest > 0 else ""),
            because="the check listens there and runs on both hosts, so something between them drops the packets: a firewall",
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )


def _title(each: Blockage) -> str:
    where = ports(each.evidence)
    if each.into:
        return f"no host gets an answer from {each.into} on {where}"
    if each.out_of:
        return f"{each.out_of} gets no answer from any host on {where}"
    one, other = each.links[0]
    return (
        f"{one} and {other} get no answer from each other on {where}"
        if len(each.links) > 1
        else f"{one} gets no answer from {other} on {where}"
    )
