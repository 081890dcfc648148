# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import EmptyBatch, EndOfData, LabelOutOfRange, UnevenShards
from keepstep.core.facts.sync import RanksMissing
from keepstep.core.facts.training import Slowness
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.torch import data as table
from keepstep.parse.tools.torch import data as torch_data


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = torch_data.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("IndexError: Target 10 is out of bounds.", LabelOutOfRange(label="10")),
        ("    StopIteration", EndOfData(what="exception")),
        ("UserWarning: world_size 4 > num_shards 0", UnevenShards(detail="4 > num_shards 0")),
        ("Loss.cu:250: block: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.", LabelOutOfRange()),
        (
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            UnevenShards(detail="a rank's dataset is empty"),
        ),
        (
            "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 512])",
            EmptyBatch(what="torch.Size([1, 512])"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "DataLoader has 4 workers",
        "batch_size 32 per rank",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


FURTHER = [
    (
        "    pipeline = self._get_pipeline_from_tar(tar_paths[0], tar_iterators[0])",
        UnevenShards,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


FURTHER_NEAR = [
    "world size 8 is not divisible by 3",
]


@pytest.mark.parametrize("text", FURTHER_NEAR)
def test_a_further_near_miss_says_nothing(text, read):
    assert read(table, text) == []


def test_shards_that_do_not_suffice_are_told_apart_from_shards_used_again():
    said = "Number of shards requested for a single epoch is more than the number of shards available."
    assert read(f"ERROR:root:{said} This means that the amount of data")
    assert not read(f"WARNING:root:{said} Consider lowering the number of workers and / or the number of GPUs")


def test_a_list_of_datasets_with_nothing_in_it(read, holds):
    assert holds(read(table, "AssertionError: datasets should not be an empty iterable"), UnevenShards)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Timed out receiving the shared seed from the distribtued store on Rank 2. (world_size=8, timeout=1800)",
        "    store.wait([_utils.DATAPIPE_SHARED_SEED], _utils.DATAPIPE_SHARED_SEED_DEFAULT_TIMEOUT)",
        "    _shared_seed_str = store.get(_utils.DATAPIPE_SHARED_SEED)",
        "    _sd_str = store.get(SHARED_SEED)",
    ],
)
def test_a_rank_that_waits_for_the_seed_of_the_loaders_waits_for_rank_zero(line: str) -> None:
    (fact,) = read(line)
    assert isinstance(fact, RanksMissing)
    assert fact.missing == (0,)


def test_the_rank_that_waited_for_the_seed_is_the_one_that_says_so() -> None:
    (fact,) = read(
        "RuntimeError: Timed out receiving the shared seed from the distribtued store on Rank 2. (world_size=8"
    )
    assert fact.rank == 2


def test_a_prefetcher_that_gets_no_data_in_time_is_slow_input() -> None:
    assert read("PrefetchTimeoutError: Fail to fetch data within 120 seconds") == [
        Slowness(what="loader", detail="120 seconds")
    ]


def test_a_seed_that_arrived_is_nothing() -> None:
    assert read("INFO:torch.utils.data.dataloader:Shared seed (1234) received from store on rank 3") == []
