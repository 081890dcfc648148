# SPDX-License-Identifier: Apache-2.0
"""DAT067: a label would be spread unevenly over the ranks."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, LabelsSkewed, Safety, Severity, rule

_WHOLE_FILES = "each rank reads whole files, and the files are not mixed"
_IN_ORDER = "the records are divided in the order in which they are stored, and that order follows the label"


@rule(id="DAT067", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(LabelsSkewed,))
def labels_unlike_between_ranks(seen: EvidenceSet) -> Findings:
    """A label would be spread unevenly over the ranks.

    ## What it looks like
    Losses differ between ranks, batch statistics differ, and the loss of one rank jumps when its files change.

    ## Why it happens
    Files are sorted by label, and each rank reads whole files. Or records are sorted by label, or alternate, and each
    rank reads one piece, or every N-th record, without a shuffle.

    ## How we know
    The label of every record was read, and the records divided in the way that the loader divides them.

    ## What to do
    Shuffle the records before they are written to files, or shuffle their order before it is divided.

    ## When this is wrong
    When gradients are averaged at every step and nothing in the model depends on one rank's batch alone.
    """
    for each in seen.all(LabelsSkewed):
        fact = each.fact
        yield Found(
            title=f"rank {fact.of_rank} would get label {fact.label!r} in {_part(fact.share)} of its records, "
            f"all ranks together in {_part(fact.usual)} ({fact.policy})",
            because=_WHOLE_FILES if fact.by_file else _IN_ORDER,
            evidence=(each,),
            ranks=(fact.of_rank,),
            severity=Severity.WARNING,
            fixes=(Fix(do="shuffle the records before writing them to files", safety=Safety.CHANGES_RESULTS),),
        )


def _part(share: float) -> str:
    return "none" if share == 0 else f"{share:.1%}"
