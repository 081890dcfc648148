# SPDX-License-Identifier: Apache-2.0
"""What real loaders fed, held against a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from keepstep.check.data.plan.policies import FileRecords, Plan, plan

Batches = Sequence[Sequence[int]]
"""What one rank was fed: the record numbers of each batch."""


def named(sizes: Sequence[int]) -> list[FileRecords]:
    return [FileRecords(f"part-{index}", size) for index, size in enumerate(sizes)]


def planned(sizes: Sequence[int], **asked: object) -> Plan:
    return plan(named(sizes), **asked)  # type: ignore[arg-type]


def assert_fed_as_planned(made: Plan, fed: Sequence[Batches]) -> None:
    """Every rank got the records, the steps and the batch sizes of its share, and the totals are those of the plan."""
    for share, batches in zip(made.shares, fed, strict=True):
        got = Counter(record for batch in batches for record in batch)
        expected = Counter(record for stream in share.streams for run in stream for record in run)
        assert got == expected, (made, share.rank, batches)
        assert len(batches) == share.steps, (made, share.rank, batches)
        assert {len(batch) for batch in batches} == set(share.rows), (made, share.rank, batches)
        if share.last_rows is not None:
            assert len(batches[-1]) == share.last_rows, (made, share.rank, batches)
    assert_totals(made, [[record for batch in batches for record in batch] for batches in fed])


def assert_totals(made: Plan, per_rank: Sequence[Sequence[int]]) -> None:
    owners: dict[int, set[int]] = {}
    for rank, records in enumerate(per_rank):
        for record in records:
            owners.setdefault(record, set()).add(rank)
    assert made.unseen == made.records - len(owners), made
    assert made.overlap == sum(len(ranks) > 1 for ranks in owners.values()), made
    assert made.repeats == sum(map(len, per_rank)) - len(owners), made


sizes_of_files = st.lists(st.integers(0, 9), min_size=1, max_size=9)
nonempty_files = st.lists(st.integers(1, 9), min_size=1, max_size=9)
numbers_of_ranks = st.integers(2, 5)
batch_sizes = st.integers(1, 7)
