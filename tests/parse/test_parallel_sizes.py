# SPDX-License-Identifier: Apache-2.0
"""Sizes that must divide each other, told apart by what is refused."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.parse.tools.programs import parallel_sizes as table

WORDINGS = [
    (
        "AssertionError: Loading a checkpoint for MP=1 but world size is 4",
        WorldSizeConflict,
        {"expected": "1", "seen": "4"},
    ),
    (
        "ValueError: TPUConfig.num_shards is not set correctly. According to TPU system metadata for Tensorflow master "
        "(grpc://10.0.0.2:8470): num_replicas should be (32), got (8).",
        WorldSizeConflict,
        {"expected": "32", "seen": "8"},
    ),
    (
        "RuntimeError: Rank must be less than world_size, got rank 9 world_size 8",
        WorldSizeConflict,
        {"rank": 9, "expected": "8"},
    ),
    (
        "AssertionError: Number of layers should be divisible by the pipeline-model-parallel size",
        WorldSizeConflict,
        {"what": "layers"},
    ),
    (
        "AssertionError: First dimension of the tensor should be divisible by tensor parallel size",
        BatchNotDivisible,
        {},
    ),
    (
        "AssertionError: Total batch size (2) must be divisible by the number of gpus (4).",
        BatchNotDivisible,
        {"batch": "2", "parts": "4"},
    ),
    (
        "AssertionError: batch-size 64 not multiple of GPU count 3",
        BatchNotDivisible,
        {"batch": "64", "parts": "3"},
    ),
    (
        "ValueError: To use a `DataLoader` in `split_batches` mode, the batch size (8) needs to be a round multiple of the number of processes (3).",
        BatchNotDivisible,
        {"batch": "8", "parts": "3"},
    ),
    (
        "ValueError: Using `split_batches=True` requires that the batch size (8) to be a round multiple of the number of processes (3).",
        BatchNotDivisible,
        {},
    ),
    (
        "RuntimeError: decoder world_size (4) is not divisible by expert_tensor_model_pipeline_parallel size (8)",
        WorldSizeConflict,
        {"seen": "4", "expected": "8"},
    ),
    (
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        WorldSizeConflict,
        {"seen": "28", "expected": "8"},
    ),
    (
        "AssertionError: rollout world_size: 8 is not divisible by infer_world_size: 3",
        WorldSizeConflict,
        {"seen": "8"},
    ),
    (
        "ValueError: tensor_parallel_size (4) must divide world size (6) evenly",
        WorldSizeConflict,
        {},
    ),
    (
        "AssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.",
        BatchNotDivisible,
        {"batch": "512", "parts": "6"},
    ),
    (
        "ValueError: ('The number of process requires to run all replicas (8)', 'must be equal to the world size (4).')",
        WorldSizeConflict,
        {"seen": "4", "expected": "8"},
    ),
    (
        "ValueError: Total available GPUs 4.0 is less than total desired GPUs 8",
        WorldSizeConflict,
        {"expected": "8"},
    ),
    (
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/context.cc:27] rank < size. 0 vs 0",
        WorldSizeConflict,
        {"seen": "0"},
    ),
    ("    assert self.config.num_moe_experts % ep_size == 0", WorldSizeConflict, {}),
    ("    assert running_global_batch_size % micro_batch_times_data_parallel_size == 0", BatchNotDivisible, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "AssertionError: embed_dim must be divisible by num_heads",
    "ValueError: height must be a multiple of 32",
    "AssertionError: in_channels must be divisible by groups",
    "    assert args.batch_size % len(devices) == 0",
    "INFO: batch size rounded up to be divisible by 8 GPUs",
    "ValueError: hidden_size (768) must be divisible by num_attention_heads (7)",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
