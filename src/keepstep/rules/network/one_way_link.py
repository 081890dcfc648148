# SPDX-License-Identifier: Apache-2.0
"""NET106: one host reaches another, but not the other way round."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Found, LinkProbed, rule
from keepstep.rules.network._links import blockages, opened, ports, shown


@rule(id="NET106", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def one_way_link(seen: EvidenceSet) -> Findings:
    """One host can connect to another, but not the other way round.

    ## What it looks like
    The processes meet, because they all connect to rank 0. Then the job hangs or times out in its first collective,
    where every process connects to its neighbours.

    ## Why it happens
    A firewall or security group lets connections out but not in, often on one host that was set up differently.

    ## How we know
    Each of the two hosts connected to the other while the other was listening, and only one got through.

    ## What to do
    Add the printed rule on the host that the finding names.

    ## When this is wrong
    A firewall that limits the number of connections may accept the first and not the next.
    """
    found = [each for each in blockages(seen) if each.one_way and not each.into and not each.out_of]
    for each, more in shown(found):
        one, other = each.links[0]
        how = "gets no answer from" if each.dropped else "is rejected by"
        what = "drops" if each.dropped else "rejects"
        yield Found(
            title=f"{one} {how} {other} on {ports(each.evidence)}, while {other} reaches {one}{more}",
            because=f"something {what} connections in one direction: a firewall at {other}",
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )
