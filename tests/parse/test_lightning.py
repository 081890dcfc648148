# SPDX-License-Identifier: Apache-2.0
"""What Lightning says."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.training import NonFinite, Phase, PhaseSeen
from keepstep.parse import lightning as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


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


def test_the_end_of_training_is_a_phase():
    assert one("`Trainer.fit` stopped: `max_epochs=3` reached.", PhaseSeen).phase is Phase.FINISHED


@pytest.mark.parametrize(
    "text", ["GPU available: True (cuda), used: True", "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]"]
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []
