# SPDX-License-Identifier: Apache-2.0
"""DAT303: data files are copies of each other."""

from __future__ import annotations

from keepstep.model.facts import ShardsAlike
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, Severity, count, listing, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT303", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(ShardsAlike,), severity=Severity.WARNING)
def files_alike(seen: EvidenceSet) -> Findings:
    """Data files have exactly the same content.

    ## What it looks like
    Nothing during training. Ranks are fed the same records, samples count twice, or validation data is trained on.

    ## Why it happens
    A shard was copied under two names, a writer started twice, or a split was made by copying.

    ## How we know
    The files have the same size and the same bytes.

    ## What to do
    Remove the copies, or give only one of them to the loader.

    ## When this is wrong
    The copies are meant, such as samples that should count more than once.
    """
    groups = seen.all(ShardsAlike)
    first = groups[0].fact
    number = sum(len(e.fact.files) + e.fact.more for e in groups)
    if len(groups) == 1:
        title = f"{listing(base_name(file) for file in first.files[:3])} are the same file"
        title = title if number <= 3 else f"{number:,} files have the same content, such as {base_name(first.files[0])}"
    else:
        title = f"{number:,} files are copies of each other, in {count(len(groups), 'group')}"
    counted = [e.fact.records * (len(e.fact.files) + e.fact.more - 1) for e in groups if e.fact.records is not None]
    twice = f"; {sum(counted):,} records are there more than once" if counted and sum(counted) else ""
    yield Found(
        title=title,
        because=f"their bytes are the same{twice}",
        evidence=groups,
        fixes=(Fix(do="remove all but one of each, if the copies are not meant", safety=Safety.CHANGES_RESULTS),),
    )
