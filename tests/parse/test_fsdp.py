# SPDX-License-Identifier: Apache-2.0
"""FullyShardedDataParallel's complaints."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.data import DtypeMismatch
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.core.facts.training import CheckpointMismatch
from keepstep.parse.tools.torch import fsdp
from tests.parse.reading import reader

read = reader(fsdp)


SAID = [
    (
        "ValueError: `FlatParameter` requires uniform dtype but got torch.float16 and torch.float32",
        DtypeMismatch(left="torch.float16", right="torch.float32"),
    ),
    (
        "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        UnsupportedCombination(what="Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`"),
    ),
    (
        "ValueError: Cannot flatten integer dtype tensors",
        UnsupportedCombination(what="Cannot flatten integer dtype tensors"),
    ),
    (
        "RuntimeError: Global world size at save time was 8, but at load time was 4",
        CheckpointMismatch(detail="Global world size at save time was 8, but at load time was 4"),
    ),
    (
        "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 2 parameters while rank 1 is all-gathering 3 parameters",
        CollectiveMismatch(
            what="order of all-gathers", rank=0, other_rank=1, left="2 parameters", right="3 parameters"
        ),
    ),
    (
        "RuntimeError: Rank 2 has different values for step: 10. Other ranks: 12",
        ReplicasDiffer(rank=2, detail="step"),
    ),
    (
        "ValueError: Inconsistent compute device and `device_id` on rank 3: cuda:0 vs cuda:3",
        ClusterSpecInvalid(rank=3, detail="the model lies on cuda:0, and the rank was given cuda:3"),
    ),
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


def test_a_changed_order_that_is_only_warned_of_gives_nothing():
    assert (
        read("UserWarning: Forward order differs from that of the first iteration on rank 0. Collectives are unchecked")
        == []
    )


def test_a_state_that_fsdp_does_not_allow_is_a_combination_it_does_not_support(read, holds):
    text = "expected to be in states [<TrainingState.BACKWARD_POST: 4>] but current state is TrainingState.IDLE"
    assert holds(read(fsdp, text), UnsupportedCombination)
