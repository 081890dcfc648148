# SPDX-License-Identifier: Apache-2.0
"""DAT074: a loader in a job of several ranks divides nothing."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, PipelineSeen, Severity, rule


@rule(id="DAT074", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(PipelineSeen,))
def data_not_divided(seen: EvidenceSet) -> Findings:
    """A loader in a job of several ranks feeds all records to every rank.

    ## What it looks like
    Nothing fails. More ranks do not make an epoch shorter.

    ## Why it happens
    The `DataLoader` has the usual sampler, not one that knows the rank.

    ## How we know
    The job has several ranks, and the sampler of the loader deals out the whole dataset.

    ## What to do
    Give the loader a sampler that divides the records.

    ## When this is wrong
    When the dataset itself holds only this rank's part, or all ranks belong to one tensor- or pipeline-parallel group.
    """
    for each in seen.all(PipelineSeen):
        sampler = next((how for word, how in each.fact.stages if word == "deal"), None)
        if sampler is not None and (each.fact.ranks or 1) > 1:
            yield Found(
                title=f"the loader's {sampler} feeds all records to each of {each.fact.ranks} ranks",
                because="this sampler does not know about ranks",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(
                        do="give the loader a sampler that divides the records",
                        code="DataLoader(data, batch_size=n, sampler=keepstep.shard(data, batch=n))",
                    ),
                ),
            )
            return
