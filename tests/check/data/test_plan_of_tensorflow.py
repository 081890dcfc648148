# SPDX-License-Identifier: Apache-2.0
"""Plans against what tf.data really does: its own rewrites, as a strategy applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepstep.model.facts.plan import LoaderRefuses
from tests.check.data.fed import (
    assert_fed_as_planned,
    batch_sizes,
    nonempty_files,
    numbers_of_ranks,
    planned,
    sizes_of_files,
)
from tests.lazy_framework import lazy_framework

tf = lazy_framework("tensorflow")
pytestmark = pytest.mark.frameworks("tensorflow")
many = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
POLICIES = {"tf-auto": "AUTO", "tf-file": "FILE", "tf-data": "DATA", "tf-off": "OFF"}


def _written(folder: Path, sizes: list[int]) -> list[str]:
    names, record = [], 0
    for index, size in enumerate(sizes):
        name = str(folder / f"part-{index}.tfrecord")
        with tf.io.TFRecordWriter(name) as writer:
            for _ in range(size):
                writer.write(str(record).encode())
                record += 1
        names.append(name)
    return names


def _records(names: list[str]) -> Any:
    return tf.data.TFRecordDataset(names).map(lambda text: tf.strings.to_number(text, tf.int64))


def _distributed(names: list[str], policy: str, ranks: int, rank: int, batch: int, drop: bool) -> list[list[int]]:
    """One rank's batches, as ``experimental_distribute_dataset`` makes them on one of several workers."""
    from tensorflow.python.data.experimental.ops import distribute

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = getattr(tf.data.experimental.AutoShardPolicy, policy)
    dataset = _records(names).batch(batch, drop_remainder=drop).with_options(options)
    dataset = dataset.rebatch(distribute.batch_sizes_for_worker(batch, ranks, 1, rank)).prefetch(1)
    if policy != "OFF":
        dataset = distribute._AutoShardDataset(dataset, ranks, rank, ranks)
    return [each.tolist() for each in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@many
@given(sizes=nonempty_files, ranks=numbers_of_ranks, batch=st.integers(1, 12), drop=st.booleans())
def test_auto_sharding_feeds_what_the_plan_says(
    policy: str, sizes: list[int], ranks: int, batch: int, drop: bool, tmp_path: Path
) -> None:
    names = _written(tmp_path, sizes)
    made = planned(sizes, ranks=ranks, batch=batch, policy=policy, drop_last=drop)
    refusals = [each for each in made.problems if isinstance(each, LoaderRefuses)]
    if refusals:
        for rank in range(ranks):
            if rank in refusals[0].ranks:
                with pytest.raises(tf.errors.InvalidArgumentError, match="Could not apply FILE based sharding"):
                    _distributed(names, POLICIES[policy], ranks, rank, batch, drop)
            else:
                assert sum(map(len, _distributed(names, POLICIES[policy], ranks, rank, batch, drop))) == 0
        return
    assert_fed_as_planned(made, [_distributed(names, POLICIES[policy], ranks, r, batch, drop) for r in range(ranks)])


@pytest.mark.parametrize("policy", ["tf-shard", "tf-shard-files"])
@many
@given(sizes=sizes_of_files, ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_explicit_shard_feeds_what_the_plan_says(
    policy: str, sizes: list[int], ranks: int, batch: int, drop: bool, tmp_path: Path
) -> None:
    names = _written(tmp_path, sizes)
    fed = []
    for rank in range(ranks):
        if policy == "tf-shard":
            dataset = _records(names).shard(ranks, rank)
        else:
            dataset = tf.data.Dataset.from_tensor_slices(names).shard(ranks, rank).interleave(_records, cycle_length=1)
        fed.append([each.tolist() for each in dataset.batch(batch, drop_remainder=drop).as_numpy_iterator()])
    assert_fed_as_planned(planned(sizes, ranks=ranks, batch=batch, policy=policy, drop_last=drop), fed)
