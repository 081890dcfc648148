# SPDX-License-Identifier: Apache-2.0
"""keepstep.shard where it is used: a DataLoader, a tf.data.Dataset, arrays of JAX."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keepstep
from tests.lazy_framework import lazy_framework

few = settings(max_examples=25, deadline=None)


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_takes_it_as_its_sampler(workers: int) -> None:
    torch = lazy_framework("torch")
    data = torch.utils.data.TensorDataset(torch.arange(101))
    fed: Counter[int] = Counter()
    for rank in range(4):
        own = keepstep.shard(data, batch=8, rank=rank, ranks=4, seed=3, skip=[5, 50])
        loader = torch.utils.data.DataLoader(data, batch_size=8, sampler=own, num_workers=workers)
        for epoch in range(2):
            own.set_epoch(epoch)
            batches = [batch[0].tolist() for batch in loader]
            assert batches == list(own.batches()) and len(loader) == own.steps == len(batches)
        fed.update(record for batch in batches for record in batch)
    assert set(fed) == set(range(101)) - {5, 50} and fed.total() == 100


@pytest.mark.frameworks("tensorflow")
@few
@given(
    records=st.integers(1, 40),
    skip=st.sets(st.integers(0, 39), max_size=6),
    ranks=st.integers(1, 4),
    batch=st.integers(1, 5),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 2**40),
    remainder=st.sampled_from(["pad", "drop", "carry"]),
    shuffle=st.booleans(),
)
def test_a_tf_data_dataset_is_divided_like_the_numbers(
    records: int, skip: set[int], ranks: int, batch: int, epoch: int, seed: int, remainder: str, shuffle: bool
) -> None:
    tf = lazy_framework("tensorflow")
    skip = {record for record in skip if record < records}
    if len(skip) == records:
        skip = set()
    source = tf.data.Dataset.range(records)
    rows, fed, expected = [], Counter[int](), Counter[int]()
    for rank in range(ranks):
        own = keepstep.shard(
            source, batch=batch, rank=rank, ranks=ranks, seed=seed, epoch=epoch, remainder=remainder, skip=skip,
            shuffle=shuffle,
        )  # fmt: skip
        batches = [each.tolist() for each in own.dataset().as_numpy_iterator()]
        assert len(batches) == own.steps == int(own.dataset().cardinality())
        rows.append([len(each) for each in batches])
        fed.update(record for each in batches for record in each)
        expected.update(own)
        if not shuffle:
            assert batches == list(own.batches())
    assert all(each == rows[0] for each in rows)
    assert fed.total() == expected.total()
    if remainder == "pad":
        assert set(fed) == set(expected)
    elif remainder == "drop":
        assert set(fed.values()) <= {1}
    assert not set(fed) & skip


@pytest.mark.frameworks("tensorflow")
def test_a_tf_data_run_goes_on_with_other_ranks() -> None:
    tf = lazy_framework("tensorflow")
    source = tf.data.Dataset.range(50)

    def made(rank: int, ranks: int, batch: int) -> Any:
        return keepstep.shard(source, batch=batch, rank=rank, ranks=ranks, seed=4, epoch=2)

    before = [made(rank, 2, 3) for rank in range(2)]
    fed = [record for own in before for batch in own.dataset().take(4) for record in batch.numpy().tolist()]
    state = before[0].state(step=4)
    for rank in range(3):
        own = made(rank, 3, 4)
        own.resume(state)
        fed += [record for batch in own.dataset() for record in batch.numpy().tolist()]
    assert len(fed) == 51 and set(fed) == set(range(50))


@pytest.mark.frameworks("tensorflow")
def test_a_tf_data_order_changes_with_the_epoch_and_not_between_readings() -> None:
    tf = lazy_framework("tensorflow")
    own = keepstep.shard(tf.data.Dataset.range(100), batch=10, rank=0, ranks=1)
    first = [batch.tolist() for batch in own.dataset().as_numpy_iterator()]
    assert first == [batch.tolist() for batch in own.dataset().as_numpy_iterator()]
    own.set_epoch(1)
    assert first != [batch.tolist() for batch in own.dataset().as_numpy_iterator()]
    with pytest.raises(ValueError, match="records="):
        keepstep.shard(tf.data.Dataset.range(9).filter(lambda x: x > 2), batch=1, rank=0, ranks=1)
    with pytest.raises(TypeError, match=r"tf\.data\.Dataset"):
        keepstep.shard(9, batch=1, rank=0, ranks=1).dataset()


@pytest.mark.frameworks("jax")
def test_jax_takes_the_rows_of_each_step() -> None:
    jax = lazy_framework("jax")
    data = jax.numpy.arange(30) * 10
    steps = [list(keepstep.shard(data, batch=5, rank=rank, ranks=2, remainder="drop").batches()) for rank in range(2)]
    whole = jax.numpy.concatenate([data[jax.numpy.array(rows)] for each in steps for rows in each])
    assert sorted(whole.tolist()) == list(range(0, 300, 10))


@pytest.mark.frameworks("jax")
def test_the_plan_for_jax_is_what_a_named_sharding_gives_each_process() -> None:
    """Where the records divide, a process gets as many as the plan says; where they do not, JAX refuses."""
    jax = lazy_framework("jax")
    from keepstep.check.data.plan.policies import FileRecords, plan

    for ranks in range(2, 6):
        mesh = jax.sharding.AbstractMesh((ranks,), ("data",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        for each in range(1, 9):
            assert sharding.shard_shape((ranks * each,)) == (each,)
            made = plan([FileRecords("x", ranks * each)], ranks=ranks, batch=1, policy="jax")
            assert [share.records for share in made.shares] == [each] * ranks and not made.unseen
        with pytest.raises(ValueError, match="is partitioned"):
            sharding.shard_shape((ranks * 3 + 1,))
