# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.data import UnevenShards
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.sync import OutsideScope
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.tensorflow import distribute as tf_distribute


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = tf_distribute.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "ValueError: Trying to create optimizer slot variable under the scope for tf.distribute.Strategy",
            OutsideScope(what="an optimizer's slot variable"),
        ),
        (
            "RuntimeError: Mixing different tf.distribute.Strategy objects: a is not b",
            OutsideScope(what="objects of two strategies"),
        ),
        (
            "ValueError: The `task_id` 2 exceeds the maximum id of worker.",
            ClusterSpecInvalid(detail="The `task_id` 2 exceeds the maximum id of worker"),
        ),
        (
            "Check failed: DeviceNameUtils::ParseFullName(name(), &parsed_name_) Invalid device name: /job:/replica:0/task:0/cpu:0",
            ClusterSpecInvalid(detail="Invalid device name: /job:/replica:0/task:0/cpu:0"),
        ),
        (
            "InvalidArgumentError: Failed to convert worker name to MPI index: /job:worker/replica:0/task:2",
            ClusterSpecInvalid(detail="Failed to convert worker name to MPI index: /job:worker/replica:0/task:2"),
        ),
        (
            "Could not apply FILE based sharding: the dataset only has 1 file(s), which is not enough",
            UnevenShards(detail="the dataset only has 1 file"),
        ),
        (
            "There aren't enough elements in this dataset for each shard to have at least one element (# elems = 1, # shards = 2).",
            UnevenShards(detail="# elems = 1, # shards = 2"),
        ),
        (
            "RuntimeError: It looks like you are using a PerReplica object while not inside a replica context, which is not supported.",
            OutsideScope(what="a per-replica value"),
        ),
        (
            "ValueError: The cluster spec needs to have `ps` jobs.",
            ClusterSpecInvalid(detail="The cluster spec needs to have `ps` jobs"),
        ),
        (
            "ValueError: All workers should have the same number of GPUs.",
            WorldSizeConflict(what="All workers should have the same number of GPUs"),
        ),
        (
            "TypeError: unsupported operand type(s) for +: 'PerReplica' and 'PerReplica'",
            UnsupportedCombination(what="a per-replica value used as one tensor"),
        ),
        (
            "ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset.",
            UnsupportedCombination(
                what="a data set of ParameterServerStrategy that is read directly, as Keras 3's fit does"
            ),
        ),
        ("    assert isinstance(var, values.DistributedVariable)", OutsideScope(what="a variable")),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "TF_CONFIG environment variable: {'cluster': {'worker': ['a:1']}}",
        "Using MirroredStrategy eagerly has significant overhead currently.",
        "AUTO sharding policy will apply DATA sharding policy as it failed to apply FILE sharding policy because of the following reason: Found x",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


def test_an_assertion_of_keras_3s_update_step_tells_of_a_model_outside_of_the_scope() -> None:
    (block,) = tf_distribute.BLOCKS
    match = block.begin.pattern.search("    distribution.extended.update(")
    assert match is not None
    assert list(block.read(match, iter(["AssertionError"]))) == [OutsideScope(what="the model")]
    assert list(block.read(match, iter(["ValueError: no gradients"]))) == []
