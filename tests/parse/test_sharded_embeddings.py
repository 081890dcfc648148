# SPDX-License-Identifier: Apache-2.0
"""The words of TorchRec's planner and of sharded tensors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.core.facts.sync import ReplicasDiffer
from keepstep.parse.tools.torch import sharded_embeddings
from tests.parse.reading import reader


@pytest.mark.parametrize(
    "text, kind, fields",
    [
        (
            "RuntimeError: No available sharding type and compute kernel combination after applying user provided constraints for product_table",
            UnsupportedCombination,
            {},
        ),
        (
            "torchrec.distributed.planner.types.PlannerError: Unable to find a plan for this model because of the strict constraints. ",
            UnsupportedCombination,
            {},
        ),
        (
            "torchrec.distributed.planner.types.PlannerError: Unable to find a plan for this model because of insufficient storage. ",
            DeviceMemoryExhausted,
            {},
        ),
        (
            "PlannerError: Unable to find a plan for this model are evaluating 1000 proposals.",
            DeviceMemoryExhausted,
            {},
        ),
        (
            "Shard ShardMetadata(shard_sizes=[4, 8]) has rank 9 which is greater than world size 8.",
            WorldSizeConflict,
            {"seen": "9", "expected": "8"},
        ),
        (
            "RuntimeError: Number of local shards (0) does not match number of local shards metadata in sharded_tensor_metadata (1) on rank (62) ",
            ReplicasDiffer,
            {"rank": 62},
        ),
        (
            "ValueError: Local shards' tensor dtype property need to be the same on rank:3! Found one local shard tensor dtype=torch.float32,",
            ReplicasDiffer,
            {"rank": 3},
        ),
        (
            "ValueError: Local shards' tensor dtype property is incompatible with tensor property on rank 5: tensor property dtype=torch.half",
            ReplicasDiffer,
            {"rank": 5},
        ),
        (
            "ValueError: Local shard tensor device does not match with local Shard's placement! Found local shard tensor device: cuda:0,",
            ClusterSpecInvalid,
            {},
        ),
        (
            "ValueError: Local shard metadata's rank does not match with the rank in its process group! Found current rank in the process group: 2,",
            ClusterSpecInvalid,
            {"rank": 2},
        ),
    ],
)
def test_says(text: str, kind: type, fields: dict[str, object]) -> None:
    facts = [each for each in reader(sharded_embeddings)(text) if isinstance(each, kind)]
    assert facts, text
    assert all(getattr(facts[0], name) == value for name, value in fields.items()), facts[0]


@pytest.mark.parametrize(
    "text",
    [
        "# Sharding Plan: number of local shards 4 on rank 0",
        "No available compute kernels after applying user provided constraints for product_table",
    ],
)
def test_a_plan_that_is_made_says_nothing(text: str) -> None:
    assert not list(reader(sharded_embeddings)(text))
