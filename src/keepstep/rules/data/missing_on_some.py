# SPDX-License-Identifier: Apache-2.0
"""DAT012: an input file was missing on some of the ranks."""

from __future__ import annotations

import shlex

from keepstep.rules.api import Cause, Confidence, DataMissing, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT, lasting, who


@rule(
    id="DAT012",
    cause=Cause.DATA_CORRUPT_OR_TRUNCATED,
    needs=(DataMissing,),
    confidence=Confidence.SUPPORTED,
    explains=FALLOUT,
)
def missing_on_some(seen: EvidenceSet) -> Findings:
    """An input file was missing on some of the ranks, while the others found theirs.

    ## What it looks like
    One rank prints `NotFoundError: ... points-01.tfrecord; No such file or directory`, or `FileNotFoundError` for a
    data file. The others lose that rank.

    ## Why it happens
    A copy or download to one host broke off, a shard was never written, or a disk is not mounted there.

    ## How we know
    The file name is that of a data file, and other ranks of the run missed nothing.

    ## What to do
    Check whether the file exists on that rank's host, and fetch or write it again.

    ## When this is wrong
    A path that is wrong in the program is missing on every rank. Then this rule stays silent.
    """
    missing = lasting(seen, DataMissing)
    hit = {e.who for e in missing if e.who is not None}
    if not missing or not hit or not seen.ranks - hit:
        return
    path = next((e.fact.path for e in missing if e.fact.path), None)
    yield Found(
        title=f"an input file of {who(missing)} was missing" + (f": {shorten(path, 60)}" if path else ""),
        because="this rank did not find a data file, and other ranks found theirs",
        evidence=missing,
        fixes=(
            Fix(do="check whether the file exists on that rank's host", command=f"ls -l {shlex.quote(path or 'FILE')}"),
            Fix(do="fetch or write it again, or remove it from the list of files"),
        ),
    )
