# SPDX-License-Identifier: Apache-2.0
"""Plans against WebDataset, Hugging Face datasets, Grain, LitData and MosaicML's MDS, where they are installed."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepstep.model.facts.plan import LoaderRefuses
from tests.check.data.fed import assert_fed_as_planned, batch_sizes, nonempty_files, numbers_of_ranks, planned
from tests.lazy_framework import lazy_framework

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.filterwarnings("ignore")]
EXAMPLES = int(os.environ.get("PLAN_EXAMPLES", "4"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
few_workers = st.sampled_from([0, 0, 0, 1, 2, 3])


def _refuses(made: Any) -> tuple[int, ...]:
    return next((each.ranks for each in made.problems if isinstance(each, LoaderRefuses)), ())


# WebDataset


def _tars(folder: Path, sizes: list[int]) -> list[str]:
    names, record = [], 0
    for index, size in enumerate(sizes):
        names.append(str(folder / f"part-{index}.tar"))
        with tarfile.open(names[-1], "w") as tar:
            for _ in range(size):
                text = str(record).encode()
                info = tarfile.TarInfo(f"{record:06d}.txt")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
                record += 1
    return names


def _webdataset(names: list[str], rank: int, ranks: int, batch: int, workers: int, drop: bool) -> list[list[int]]:
    torch = lazy_framework("torch")
    import webdataset

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
    try:
        dataset = webdataset.WebDataset(names, nodesplitter=webdataset.split_by_node, shardshuffle=False)
        dataset = dataset.map(lambda sample: int(sample["txt"]))
        loader = torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=workers, drop_last=drop)
        return [each.tolist() for each in loader]
    finally:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]


@pytest.mark.long
@many
@given(sizes=nonempty_files, ranks=numbers_of_ranks, batch=batch_sizes, workers=few_workers, drop=st.booleans())
def test_webdataset_feeds_what_the_plan_says(
    sizes: list[int], ranks: int, batch: int, workers: int, drop: bool, tmp_path: Path
) -> None:
    pytest.importorskip("webdataset")
    names = _tars(tmp_path, sizes)
    made = planned(sizes, ranks=ranks, batch=batch, policy="webdataset", workers=workers, drop_last=drop)
    refuses = _refuses(made)
    for rank in refuses:
        with pytest.raises(ValueError, match="No samples found in dataset; perhaps you have fewer shards than workers"):
            _webdataset(names, rank, ranks, batch, workers, drop)
    if not refuses:
        assert_fed_as_planned(made, [_webdataset(names, r, ranks, batch, workers, drop) for r in range(ranks)])


# Hugging Face datasets


def _rows(pieces: list[list[int]]) -> Iterator[dict[str, int]]:
    for piece in pieces:
        for record in piece:
            yield {"record": record}


def _huggingface(sizes: list[int], rank: int, ranks: int, batch: int, workers: int, drop: bool) -> list[list[int]]:
    import datasets

    torch = lazy_framework("torch")
    from datasets.distributed import split_dataset_by_node

    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    pieces = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    dataset = datasets.IterableDataset.from_generator(_rows, gen_kwargs={"pieces": pieces})
    assert dataset.num_shards == len(sizes)
    dataset = split_dataset_by_node(dataset, rank=rank, world_size=ranks)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=workers, drop_last=drop)
    return [each["record"].tolist() for each in loader]


@many
@given(sizes=nonempty_files, ranks=numbers_of_ranks, batch=batch_sizes, workers=few_workers, drop=st.booleans())
def test_huggingface_streams_what_the_plan_says(
    sizes: list[int], ranks: int, batch: int, workers: int, drop: bool
) -> None:
    pytest.importorskip("datasets")
    made = planned(sizes, ranks=ranks, batch=batch, policy="huggingface", workers=workers, drop_last=drop)
    assert_fed_as_planned(made, [_huggingface(sizes, r, ranks, batch, workers, drop) for r in range(ranks)])


@many
@given(records=st.integers(5, 60), ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_huggingface_splits_a_map_style_dataset_as_planned(records: int, ranks: int, batch: int, drop: bool) -> None:
    datasets = pytest.importorskip("datasets")
    torch = lazy_framework("torch")
    from datasets.distributed import split_dataset_by_node

    whole = datasets.Dataset.from_dict({"record": list(range(records))})
    fed = []
    for rank in range(ranks):
        own = split_dataset_by_node(whole, rank=rank, world_size=ranks)
        loader = torch.utils.data.DataLoader(own, batch_size=batch, drop_last=drop)
        fed.append([each["record"].tolist() for each in loader])
    made = planned([records], ranks=ranks, batch=batch, policy="huggingface-map", drop_last=drop)
    assert_fed_as_planned(made, fed)


# Grain


@pytest.mark.parametrize("policy", ["grain", "grain-drop"])
@many
@given(records=st.integers(5, 60), ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_grain_feeds_what_the_plan_says(policy: str, records: int, ranks: int, batch: int, drop: bool) -> None:
    _grain_as_planned(policy, records, ranks, batch, 0, drop)


@many
@given(records=st.integers(5, 60), ranks=numbers_of_ranks, batch=batch_sizes, drop=st.booleans())
def test_slices_of_a_grain_dataset_are_as_planned(records: int, ranks: int, batch: int, drop: bool) -> None:
    grain = pytest.importorskip("grain")
    fed = [
        [each.tolist() for each in grain.MapDataset.range(records)[rank::ranks].batch(batch, drop_remainder=drop)]
        for rank in range(ranks)
    ]
    assert_fed_as_planned(planned([records], ranks=ranks, batch=batch, policy="grain-slice", drop_last=drop), fed)


@pytest.mark.parametrize("workers", [1, 2])
def test_grain_with_workers_feeds_what_the_plan_says(workers: int) -> None:
    _grain_as_planned("grain", 23, 2, 3, workers, False)


def _grain_as_planned(policy: str, records: int, ranks: int, batch: int, workers: int, drop: bool) -> None:
    grain = pytest.importorskip("grain.python")
    fed = []
    for rank in range(ranks):
        options = grain.ShardOptions(shard_index=rank, shard_count=ranks, drop_remainder=policy.endswith("drop"))
        loader = grain.DataLoader(
            data_source=range(records),
            sampler=grain.IndexSampler(num_records=records, shard_options=options, shuffle=False, num_epochs=1),
            operations=[grain.Batch(batch_size=batch, drop_remainder=drop)],
            worker_count=workers,
            read_options=grain.ReadOptions(num_threads=1),
        )
        fed.append([each.tolist() for each in loader])
    made = planned([records], ranks=ranks, batch=batch, policy=policy, workers=workers, drop_last=drop)
    assert_fed_as_planned(made, fed)


# LitData


def _litdata_chunks(sizes: list[int]) -> list[Any]:
    from litdata.streaming.item_loader import Interval

    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [Interval(s, s, s + size, s + size) for s, size in zip(starts, sizes, strict=True)]


@pytest.mark.parametrize("policy", ["litdata", "litdata-keep"])
@settings(max_examples=100, deadline=None)
@given(sizes=nonempty_files, ranks=numbers_of_ranks, batch=batch_sizes, workers=st.integers(0, 3))
def test_litdata_assigns_what_the_plan_says(
    policy: str, sizes: list[int], ranks: int, batch: int, workers: int
) -> None:
    """LitData's own assignment of chunks, and the batches that a loader makes of each worker's items."""
    pytest.importorskip("litdata")
    from litdata.utilities.env import _DistributedEnv
    from litdata.utilities.shuffle import _associate_chunks_and_intervals_to_workers as associate

    readers = max(workers, 1)
    _, intervals = associate(
        _DistributedEnv(ranks, 0, 1),
        list(range(len(sizes))),
        _litdata_chunks(sizes),
        policy == "litdata",
        readers,
        batch,
    )
    fed: list[list[list[int]]] = []
    for rank in range(ranks):
        fed.append([])
        for own in intervals[rank * readers : (rank + 1) * readers]:
            items = [item for each in own for item in range(each[1], each[2])]
            fed[-1] += [items[start : start + batch] for start in range(0, len(items), batch)]
    made = planned(sizes, ranks=ranks, batch=batch, policy=policy, workers=workers)
    for share in made.shares:
        assert share.steps == len(fed[share.rank])
    assert_fed_as_planned(made, fed)


# MosaicML


@settings(max_examples=300, deadline=None)
@given(
    records=st.integers(5, 120),
    nodes=st.integers(1, 3),
    local=st.integers(1, 5),
    batch=batch_sizes,
    workers=st.integers(1, 3),
    drop=st.booleans(),
)
def test_mds_partitions_as_the_plan_says(
    records: int, nodes: int, local: int, batch: int, workers: int, drop: bool
) -> None:
    """MosaicML's own partition of the samples, read as its workers do: places that are -1 are passed over."""
    partition = pytest.importorskip("streaming.base.partition")
    ids = partition.get_partitions("relaxed", records, nodes, nodes, local, workers, batch)
    fed = []
    for node in range(nodes):
        for rank in range(local):
            batches = ids[node, rank].transpose(1, 0, 2).reshape(-1, batch).tolist()
            kept = [[sample for sample in each if sample != -1] for each in batches]
            fed.append([each for each in kept if each and not (drop and len(each) < batch)])
    made = planned([records], ranks=nodes * local, nodes=nodes, batch=batch, policy="mds", drop_last=drop)
    assert_fed_as_planned(made, fed)
