# SPDX-License-Identifier: Apache-2.0
"""What the sampled batches of several ranks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from keepstep.check.live.sampling import Sample
from keepstep.model.facts.pipeline import RowsCompared

LEAST_ROWS = 4
MOST_ALIKE = 0.5
"""Where more of a rank's own rows are the same, rows cannot be told apart."""
MOST_PAIRS = 500


def compared(samples: Sequence[Sample]) -> Iterator[RowsCompared]:
    """One fact per pair of ranks whose rows can be told apart."""
    rows = [each.rows for each in samples]
    distinct = [set(each) for each in rows]
    usable = [
        len(set_) >= LEAST_ROWS and len(set_) >= MOST_ALIKE * len(all_)
        for set_, all_ in zip(distinct, rows, strict=True)
    ]
    for number, (first, second) in enumerate(combinations(range(len(samples)), 2)):
        if number >= MOST_PAIRS:
            return
        if usable[first] and usable[second]:
            yield RowsCompared(
                first=first,
                second=second,
                rows=min(len(distinct[first]), len(distinct[second])),
                shared=len(distinct[first] & distinct[second]),
                same_order=rows[first] == rows[second],
            )
