# SPDX-License-Identifier: Apache-2.0
"""NET062: too few nodes came to start the run."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, NodesMissing, rule


@rule(id="NET062", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(NodesMissing,), confidence=Confidence.HYPOTHESIS)
def nodes_missing(seen: EvidenceSet) -> Findings:
    """Too few nodes came in time, and `keepstep run` started nothing.

    ## What it looks like
    `only 1 node of 2 came within 10 min; missing: node 1`, or what ssh says about a host.

    ## Why it happens
    The agent was not started there, cannot reach the leader's port, or ssh could not log in.

    ## How we know
    The leader waited for the agents, and these did not come. It cannot see why an agent that never came is missing.

    ## What to do
    See whether the agent runs on that machine, and what it says: it names the address that it cannot reach.

    ## When this is wrong
    When a node was only slow to start: give it more time with `--wait`.
    """
    for each in seen.all(NodesMissing):
        if not each.fact.refused and not each.fact.absent:
            yield Found(
                title="too few nodes came to start the run",
                because=each.fact.why,
                evidence=(each,),
                fixes=(Fix(do="see whether the agent runs on the missing machine, and what it says"),),
            )
