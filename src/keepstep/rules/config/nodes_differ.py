# SPDX-License-Identifier: Apache-2.0
"""CFG015: the nodes of a run were not given the same program."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, NodesMissing, rule


@rule(id="CFG015", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(NodesMissing,))
def nodes_differ(seen: EvidenceSet) -> Findings:
    """A node of `keepstep run` was refused, because it was not started like the others.

    ## What it looks like
    `host b (node 1) has another command or script than host a (node 0)`. Nothing was started.

    ## Why it happens
    The script was changed on one machine only, the nodes have different environments, or one of them was started with
    other options or with a number that another node has already.

    ## How we know
    Every agent says what it would run, with which Python and which keepstep; the leader compares it.

    ## What to do
    Copy the script to all nodes, or use one folder that all of them see, and start all of them with the same command.

    ## When this is wrong
    When the nodes are meant to run different programs. Start them with a launcher of your own then.
    """
    for each in seen.all(NodesMissing):
        if each.fact.refused:
            yield Found(
                title="the nodes of the run were not started alike",
                because=each.fact.why,
                evidence=(each,),
                fixes=(Fix(do="give all nodes the same script, the same environment and the same options"),),
            )
