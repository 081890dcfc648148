# SPDX-License-Identifier: Apache-2.0
"""RES109: the ranks of one host will need more memory than it has."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    HostMemoryForecast,
    count,
    rule,
    size,
)

MOST_REMEDIES = 3


@rule(id="RES109", cause=Cause.RESOURCE_HOST_OOM_KILLED, needs=(HostMemoryForecast,))
def host_too_small(seen: EvidenceSet) -> Findings:
    """The ranks of one host need more memory than it has.

    ## What it looks like
    `keepstep check memory --host-memory ...` ran the script on tensors without content. Even the lower end of what its
    ranks would hold on one host is more than the host has. The kernel would kill one of them.

    ## Why it happens
    Every rank builds the whole model on the host before it is sharded, or many loader workers keep many large batches.

    ## How we know
    The tensors of the host, the workers of the loaders and their batches were counted for one rank, and multiplied by
    the ranks of the host.

    ## What to do
    Look at the largest part. Build the model on the device `meta`, or on one rank only; use fewer workers, or a smaller
    `prefetch_factor`.

    ## When this is wrong
    When ranks share what each of them seems to hold, such as a file that all map.
    """
    for each in seen.all(HostMemoryForecast):
        fact = each.fact
        if fact.earlier or fact.total is None or fact.low <= fact.total:
            continue
        largest, bytes_ = max(fact.parts, key=lambda part: part[1], default=("processes", fact.high))
        needs = f"need at least {size(fact.low)}, and it has {size(fact.total)}"
        yield Found(
            title=f"{count(fact.ranks, 'rank')} of one host {needs}",
            because=f"the largest part is {largest}: up to {size(bytes_)}",
            evidence=(each,),
            confidence=Confidence.SUPPORTED,
            fixes=_fixes(largest, fact),
        )


def _fixes(largest: str, fact: HostMemoryForecast) -> tuple[Fix, ...]:
    found = [Fix(do=f"{what}: needs at most {size(high)}") for what, high in fact.remedies[:MOST_REMEDIES]]
    if largest == "their tensors":
        found.insert(0, Fix(do="build the model under `torch.device('meta')` and fill it after it is sharded"))
    return tuple(found or [Fix(do="place fewer ranks on a host")])
