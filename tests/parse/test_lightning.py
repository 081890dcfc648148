# SPDX-License-Identifier: Apache-2.0
"""What Lightning says."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import UnevenShards
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.sync import ForkOrThread
from keepstep.core.facts.training import NonFinite, Phase, PhaseSeen
from keepstep.parse.tools.trainers import lightning as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_the_first_child_to_end_is_read():
    fact = one(
        "Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes", ProcessExited
    )
    assert (fact.pid, fact.code, fact.first) == (4711, 1, True)


def test_members_are_counted():
    fact = one("Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/4", WorldSeen)
    assert (fact.index, fact.size) == (1, 4)


def test_a_loss_that_is_not_finite_is_read():
    assert one("ValueError: The loss returned in `training_step` is nan.", NonFinite).fatal


def test_a_variable_that_an_old_strategy_needs_is_read():
    text = "ddp2 only works in SLURM or via torchelastic with the WORLD_SIZE, LOCAL_RANK, GROUP_RANK flags"
    assert one(text, RankVariableMissing).name == "LOCAL_RANK"


@pytest.mark.parametrize(
    "text",
    [
        "`Trainer.fit` stopped: No training batches.",
        "MisconfigurationException: Total length of `Dataloader` across ranks is zero. Please make sure that it returns at least 1 batch.",
    ],
)
def test_that_nothing_is_there_to_train_on_is_read(text):
    assert one(text, UnevenShards).detail


def test_an_empty_loader_that_may_be_meant_is_not():
    assert (
        facts(
            "data.py:106: Total length of `DataLoader` across ranks is zero. Please make sure this was your intention."
        )
        == []
    )


def test_the_end_of_training_is_a_phase():
    assert one("`Trainer.fit` stopped: `max_epochs=3` reached.", PhaseSeen).phase is Phase.FINISHED


@pytest.mark.parametrize(
    "text", ["GPU available: True (cuda), used: True", "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]"]
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


FURTHER = [
    (
        "MisconfigurationException: You requested GPUs: [0, 1]\n     But your machine only has: [0]",
        WorldSizeConflict,
        {"expected": "[0, 1]", "seen": "[0]"},
    ),
    (
        "But your machine only has: [0]",
        WorldSizeConflict,
        {"seen": "[0]"},
    ),
    (
        "RuntimeError: You set `--ntasks=2` in your SLURM bash script, but this variable is not supported. HINT: Use `--ntasks-per-node=2` instead.",
        WorldSizeConflict,
        {"seen": "2"},
    ),
    (
        "AssertionError: random port can only be called from single node training",
        RankVariableMissing,
        {"name": "MASTER_PORT"},
    ),
    (
        "KeyError: Cannot determine world size. Environment variable `JSM_NAMESPACE_SIZE` not found.",
        RankVariableMissing,
        {"name": "JSM_NAMESPACE_SIZE"},
    ),
    (
        "MisconfigurationException: No supported gpu backend found!",
        CudaMismatch,
        {},
    ),
    (
        "RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually",
        ForkOrThread,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
