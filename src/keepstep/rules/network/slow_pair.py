# SPDX-License-Identifier: Apache-2.0
"""NET122: two ranks exchange far less than their kind of link gives."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTried
from keepstep.rules.api import Cause, EvidenceSet, Findings, Severity, rule
from keepstep.rules.asking.slow_links import slow_links


@rule(id="NET122", cause=Cause.NETWORK_TIMEOUT_SLOW, needs=(CollectiveTried,), severity=Severity.WARNING)
def slow_pair(seen: EvidenceSet) -> Findings:
    """Two ranks exchange far less than their link says that it gives, or than other pairs with that kind of link.

    ## What it looks like
    The job trains at a fraction of its speed, and nothing is wrong: every collective waits for its slowest link.

    ## Why it happens
    A network card negotiated a lower speed, NCCL fell back from InfiniBand to sockets, a cable is bad, a shaper limits
    the rate, or the traffic takes another interface than intended.

    ## How we know
    `keepstep check collectives` summed over every pair of torch ranks, and once more over the slow ones, alone. Both
    times the pair exchanged a quarter of the usual pair of its kind or less, or a quarter of what a network card says
    (an eighth for InfiniBand and RoCE; of a card no more than 10 Gbit/s is asked). Where a link does not say what it
    gives, only others of its kind are compared with it.

    ## What to do
    `keepstep check network` measures the link without the framework. Look at the card's speed and errors.

    ## When this is wrong
    Hosts that are far apart on purpose always have slower links; a busy processor slows a rank's links, too.
    """
    yield from slow_links(seen, of_gpus=False)
