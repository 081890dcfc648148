# SPDX-License-Identifier: Apache-2.0
"""DAT309: a sample lacks a part that others have."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, Severity, ShardBroken, count, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT309", cause=Cause.DATA_SHAPE_MISMATCH, needs=(ShardBroken,), severity=Severity.WARNING)
def sample_incomplete(seen: EvidenceSet) -> Findings:
    """A sample lacks a part that the samples around it have.

    ## What it looks like
    `KeyError`, or a `ValueError` from `to_tuple`, when a rank reaches the sample; or it is skipped silently.

    ## Why it happens
    The writer failed between two files of a sample, or files that belong together were not written one after the
    other, so the reader takes them for two samples.

    ## How we know
    `keepstep check data` grouped the members as WebDataset does, by their names up to the first dot.

    ## What to do
    Write the shard again with all parts of a sample side by side, or drop incomplete samples when reading.

    ## When this is wrong
    The part is optional.
    """
    found = tuple(e for e in seen.all(ShardBroken) if e.fact.kind == "incomplete")
    if not found:
        return
    first = found[0].fact
    number = len(found) + sum(e.fact.more for e in found)
    rest = f" (+ {number - 1:,} more)" if number > 1 else ""
    yield Found(
        title=f"{base_name(first.file)}: sample {first.record} is incomplete: {first.how}{rest}",
        because=f"{count(number, 'sample')} {'lacks' if number == 1 else 'lack'} a part that most samples have",
        evidence=found,
        fixes=(
            Fix(do="write the shard again, with all parts of a sample side by side"),
            Fix(do="or drop incomplete samples when reading", safety=Safety.CHANGES_RESULTS),
        ),
    )
