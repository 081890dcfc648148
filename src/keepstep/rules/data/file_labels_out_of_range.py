# SPDX-License-Identifier: Apache-2.0
"""DAT308: labels of a data file are outside their range."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ValueRange, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT308", cause=Cause.DATA_LABEL_OUT_OF_RANGE, needs=(ValueRange,))
def file_labels_out_of_range(seen: EvidenceSet) -> Findings:
    """A data file holds labels or tokens outside the range that the model has.

    ## What it looks like
    `device-side assert triggered`, `index out of range in self`, or a loss of NaN, when a rank reaches the record.

    ## Why it happens
    Labels begin at 1, an ignored class is marked with 255 or -1, or the tokens belong to another vocabulary.

    ## How we know
    `keepstep check data --values --classes N` read all values of the field.

    ## What to do
    Correct the labels, or give the model as many classes as the data has.

    ## When this is wrong
    The loss ignores this value on purpose (`ignore_index`).
    """
    for found in seen.groups(ValueRange, by=lambda fact: fact.field):
        first = found[0].fact
        low, high = min(e.fact.low for e in found), max(e.fact.high for e in found)
        where = base_name(first.file) if len(found) == 1 else f"{len(found):,} files (such as {base_name(first.file)})"
        first_one = f", first in record {first.record:,}" if first.record is not None and len(found) == 1 else ""
        yield Found(
            title=f"{first.field} in {where} is {low:,} to {high:,}; {first.classes:,} classes are 0 to "
            f"{first.classes - 1:,}{first_one}",
            because="all values of the field were read",
            evidence=found,
            fixes=(Fix(do="correct the labels, or give the model as many classes as the data has"),),
        )
