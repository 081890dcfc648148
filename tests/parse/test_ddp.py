# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's complaints."""

from __future__ import annotations

import pytest

from keepstep.core.facts.sync import MarkedReadyTwice, ModelsDiffer, UnusedParameters
from keepstep.parse.tools.torch import ddp
from tests.parse.reading import reader

read = reader(ddp)


SAID = [
    ("    bucket_idx, bucket_loc = self.param_id_to_bucket[id(param)]", UnusedParameters()),
    ("AttributeError: 'DistributedDataParallel' object has no attribute 'buckets_ready_size'", UnusedParameters()),
    (
        "AssertionError: A bucket failed to be sent, probably unused parameters.Either remove the unused",
        UnusedParameters(),
    ),
    (
        "TypeError: _queue_reduction(): incompatible function arguments. The following argument types",
        UnusedParameters(),
    ),
    ("RuntimeError: ('In epilogue, next_bucket (0) != num_buckets (1).  ', 'This probably", UnusedParameters()),
    (
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error",
        UnusedParameters(),
    ),
    (
        "Parameter indices which did not receive grad for rank 1: 160 161",
        UnusedParameters(rank=1, names="160 161"),
    ),
    (
        "Parameters which did not receive grad for rank 0: head.weight, head.bias",
        UnusedParameters(rank=0, names="head.weight, head.bias"),
    ),
    (
        "RuntimeError: Expected to mark a variable ready only once. This error is caused by",
        MarkedReadyTwice(),
    ),
    (
        "Parameter at index 387 with name enc.layer.23.weight has been marked as ready twice. This means",
        MarkedReadyTwice(name="enc.layer.23.weight"),
    ),
    (
        "RuntimeError: DDP expects same model across all ranks, but Rank 5 has 128 params, while rank 0 has inconsistent 3 params.",
        ModelsDiffer(rank=5, detail="128 params, while rank 0 has inconsistent 3 params"),
    ),
    (
        "RuntimeError: [2]: params[4] in this process with sizes [243, 256] appears not to match strides of the same param in process 0.",
        ModelsDiffer(
            rank=2,
            detail="params[4] in this process with sizes [243, 256] appears not to match strides of the same param in process 0",
        ),
    ),
    (
        "RuntimeError: params[0] in this process with sizes [10, 3] appears not to match sizes of the same param in process 0.",
        ModelsDiffer(
            detail="params[0] in this process with sizes [10, 3] appears not to match sizes of the same param in process 0"
        ),
    ),
]

HARMLESS = [
    "[W reducer.cpp:1251] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any "
    "unused parameters in the forward pass.",
    "Warning: Grad strides do not match bucket view strides. This may indicate grad was not created according to",
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_healthy_runs_give_nothing(text):
    assert read(text) == []


def test_keys_of_a_checkpoint_that_only_other_ranks_have() -> None:
    assert len(read("AssertionError: Key(s) present in other ranks but not this one, difference: {'rng_3'}")) == 1
