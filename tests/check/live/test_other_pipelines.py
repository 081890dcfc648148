# SPDX-License-Identifier: Apache-2.0
"""check_data on Grain and Hugging Face datasets, and keepstep.shard with Grain, where they are installed."""

from __future__ import annotations

from typing import Any

import pytest

import keepstep


def test_grain_datasets_show_their_stages_and_are_compared() -> None:
    grain = pytest.importorskip("grain")

    def make(rank: int, ranks: int) -> Any:
        return grain.MapDataset.range(64).seed(1)[rank::ranks].shuffle().batch(4)

    assert not keepstep.check_data(make, ranks=2).findings
    same = keepstep.check_data(lambda rank, ranks: grain.MapDataset.range(64).batch(4), ranks=2)
    assert [finding.rule for finding in same.findings] == ["DAT073"]


def test_a_grain_loader_is_read() -> None:
    grain = pytest.importorskip("grain.python")

    def make(rank: int, ranks: int) -> Any:
        options = grain.ShardOptions(shard_index=rank, shard_count=ranks)
        return grain.DataLoader(
            data_source=range(40),
            sampler=grain.IndexSampler(40, shard_options=options, shuffle=True, num_epochs=1, seed=3),
            operations=[grain.Batch(batch_size=4)],
        )

    assert not keepstep.check_data(make, ranks=2).findings


def test_huggingface_datasets_are_read_and_compared() -> None:
    datasets = pytest.importorskip("datasets")
    from datasets.distributed import split_dataset_by_node

    whole = datasets.Dataset.from_dict({"record": list(range(40))}).with_format("numpy")
    streamed = whole.to_iterable_dataset(num_shards=4)

    def make(rank: int, ranks: int) -> Any:
        return split_dataset_by_node(streamed, rank, ranks).batch(4)

    assert not keepstep.check_data(make, ranks=2).findings
    same = keepstep.check_data(lambda rank, ranks: streamed.batch(4), ranks=2)
    assert [finding.rule for finding in same.findings] == ["DAT073"]


def test_grain_reads_the_records_of_a_shard() -> None:
    grain = pytest.importorskip("grain")
    data = [f"record {index}" for index in range(50)]
    fed: list[str] = []
    for rank in range(3):
        own = keepstep.shard(data, batch=4, rank=rank, ranks=3, seed=2)
        batches = list(grain.MapDataset.source(own).map(lambda index: data[index]).batch(4))
        assert len(batches) == own.steps
        fed += [str(row) for batch in batches for row in batch]
    assert set(fed) == set(data) and len(fed) == 51
