# SPDX-License-Identifier: Apache-2.0
"""NET106: one host reaches another, but not the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed
from keepstep.core.finding import Found
from keepstep.core.rule import rule
from keepstep.core.wording import count
from keepstep.rules.network._links import MOST_PAIRS, blockages, opened, ports


@rule(id="NET106", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def one_way_link(seen: EvidenceSet) -> Iterator[Found]:
    """One host opens connections to another one, but not the other way round.

    ## What it looks like
    The processes meet, since they all call rank 0, and the job hangs or times out in its first collective,
    where every process calls its neighbours.

    ## Why it happens
    A firewall or security group lets connections out and none in, often on one host that was set up differently.

    ## How we know
    Each of the two hosts called the other while the other listened; only one got through.

    ## What to do
    Add the rule that is printed, on the host that is named.

    ## When this is wrong
    A firewall that counts connections may let the first through and not the next.
    """
    found = [each for each in blockages(seen) if each.one_way and not each.into and not each.out_of]
    for n, each in enumerate(found[:MOST_PAIRS]):
        one, other = each.links[0]
        rest = len(found) - MOST_PAIRS if n == MOST_PAIRS - 1 else 0
        how = "gets no answer from" if each.dropped else "is rejected by"
        yield Found(
            title=f"{one} {how} {other} on {ports(each.evidence)}, while {other} reaches {one}"
            + (f" (and {count(rest, 'more pair')})" if rest > 0 else ""),
            because=f"something {'drops' if each.dropped else 'rejects'} connections in one direction: a firewall at {other}",
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )
