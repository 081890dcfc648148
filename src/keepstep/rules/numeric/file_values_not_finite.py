# SPDX-License-Identifier: Apache-2.0
"""NUM301: a data file holds NaN or infinity."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, ValuesOdd, listing, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="NUM301", cause=Cause.NUMERIC_NAN_OR_DIVERGENCE, needs=(ValuesOdd,))
def file_values_not_finite(seen: EvidenceSet) -> Findings:
    """A data file holds values that are NaN or infinite.

    ## What it looks like
    The loss becomes NaN at the step that reads the record, on one rank first, then on all of them.

    ## Why it happens
    Missing values were written as NaN, or a division by zero happened when features were made.

    ## How we know
    `keepstep check data --values` read all values.

    ## What to do
    Correct or drop these records, or replace the values where records are parsed.

    ## When this is wrong
    The loader replaces NaN before the model sees it.
    """
    for found in seen.groups(ValuesOdd, by=lambda fact: fact.field):
        first = found[0].fact
        nans, infinities = sum(e.fact.nans for e in found), sum(e.fact.infinities for e in found)
        what = listing([f"{nans:,} NaN"] * bool(nans) + [f"{infinities:,} infinite"] * bool(infinities))
        where = base_name(first.file) if len(found) == 1 else f"{len(found):,} files (such as {base_name(first.file)})"
        record = f", first in record {first.record:,}" if first.record is not None else ""
        yield Found(
            title=f"{first.field} in {where} holds {what} values{record}",
            because="all values of the field were read",
            evidence=found,
            fixes=(Fix(do="correct or drop these records", safety=Safety.CHANGES_RESULTS),),
        )
