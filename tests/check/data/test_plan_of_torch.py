# SPDX-License-Identifier: Apache-2.0
"""Plans against what PyTorch's samplers and loaders really do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.check.data.plan.torch import sampler_order
from tests.check.data.fed import (
    assert_fed_as_planned,
    assert_totals,
    batch_sizes,
    numbers_of_ranks,
    planned,
    sizes_of_files,
)
from tests.lazy_framework import lazy_framework

torch = lazy_framework("torch")
pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.filterwarnings("ignore:This DataLoader will create")]
many = settings(max_examples=50, deadline=None)
few = settings(max_examples=3, deadline=None)


def _loaded(dataset: Any, **how: Any) -> list[list[int]]:
    return [batch.tolist() for batch in torch.utils.data.DataLoader(dataset, **how)]


@pytest.mark.parametrize("policy", ["torch-sampler", "torch-sampler-drop"])
@many
@given(records=st.integers(1, 60), ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_the_sampler_feeds_what_the_plan_says(policy: str, records: int, ranks: int, batch: int, drop: bool) -> None:
    data = range(records)
    fed = []
    for rank in range(ranks):
        sampler = torch.utils.data.DistributedSampler(
            data, num_replicas=ranks, rank=rank, shuffle=False, drop_last=policy.endswith("drop")
        )
        fed.append(_loaded(data, sampler=sampler, batch_size=batch, drop_last=drop))
    assert_fed_as_planned(planned([records], ranks=ranks, batch=batch, policy=policy, drop_last=drop), fed)


@many
@given(records=st.integers(1, 300), ranks=numbers_of_ranks, seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_the_shuffled_order_is_that_of_the_seed_and_the_epoch(records: int, ranks: int, seed: int, epoch: int) -> None:
    made = planned([records], ranks=ranks, batch=1, policy="torch-sampler", seed=seed, epoch=epoch)
    order = sampler_order(records, seed, epoch)
    per_rank = []
    for rank, share in enumerate(made.shares):
        sampler = torch.utils.data.DistributedSampler(range(records), num_replicas=ranks, rank=rank, seed=seed)
        sampler.set_epoch(epoch)
        per_rank.append(list(sampler))
        assert [order[place] for stream in share.streams for run in stream for place in run] == per_rank[-1]
    assert_totals(made, per_rank)


@cache
def _stream_class() -> Any:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined, unused-ignore]
        """A dataset in the three ways in which people write them."""

        def __init__(self, sizes: list[int], how: str, rank: int, ranks: int) -> None:
            self.sizes, self.how, self.rank, self.ranks = sizes, how, rank, ranks

        def __iter__(self) -> Iterator[int]:
            info = torch.utils.data.get_worker_info()
            worker, workers = (info.id, info.num_workers) if info else (0, 1)
            reader, readers = self.rank * workers + worker, self.ranks * workers
            starts = [sum(self.sizes[:index]) for index in range(len(self.sizes))]
            files = [range(start, start + size) for start, size in zip(starts, self.sizes, strict=True)]
            if self.how == "torch-iterable-files":
                files = files[reader::readers]
            records = (record for file in files for record in file)
            return islice(records, reader, None, readers) if self.how == "torch-iterable-records" else records

    return Stream


def _stream_as_planned(policy: str, sizes: list[int], ranks: int, batch: int, workers: int, drop: bool) -> None:
    fed = [
        _loaded(_stream_class()(sizes, policy, rank, ranks), batch_size=batch, num_workers=workers, drop_last=drop)
        for rank in range(ranks)
    ]
    made = planned(sizes, ranks=ranks, batch=batch, policy=policy, workers=workers, drop_last=drop)
    assert_fed_as_planned(made, fed)


ITERABLES = ["torch-iterable", "torch-iterable-records", "torch-iterable-files"]


@pytest.mark.parametrize("policy", ITERABLES)
@many
@given(sizes=sizes_of_files, ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_an_iterable_feeds_what_the_plan_says(
    policy: str, sizes: list[int], ranks: int, batch: int, drop: bool
) -> None:
    _stream_as_planned(policy, sizes, ranks, batch, 0, drop)


@pytest.mark.parametrize("policy", ITERABLES)
@few
@given(sizes=sizes_of_files, ranks=st.integers(2, 3), batch=batch_sizes, workers=st.integers(1, 3), drop=st.booleans())
def test_an_iterable_with_workers_feeds_what_the_plan_says(
    policy: str, sizes: list[int], ranks: int, batch: int, workers: int, drop: bool
) -> None:
    _stream_as_planned(policy, sizes, ranks, batch, workers, drop)
