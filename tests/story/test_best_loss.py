# SPDX-License-Identifier: Apache-2.0
"""How long ago the loss was best."""

from __future__ import annotations

import pytest

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.training import StepSeen
from keepstep.story.best_loss import best_loss


def said(losses: list[float], every: int = 100) -> list[str]:
    steps = [StepSeen(step=number * every, loss=loss) for number, loss in enumerate(losses)]
    seen = [Evidence(fact=each, origin=Origin(source="log", line=line)) for line, each in enumerate(steps, 1)]
    return [note.says for note in best_loss(EvidenceSet(items=tuple(seen)))]


def test_a_best_loss_of_long_ago_is_noted() -> None:
    falls_then_stays = [3.0 - 0.1 * n for n in range(21)] + [1.1] * 40
    assert said(falls_then_stays) == ["the best loss was 4,000 steps ago: 1 at step 2,000, 1.1 at the end"]


@pytest.mark.parametrize(
    "losses",
    [
        [3.0 - 0.01 * n for n in range(200)],
        [3.0 - 0.1 * n for n in range(20)] + [1.2] * 15,  # too few since
        [3.0 - 0.01 * n for n in range(200)] + [1.2] * 25,  # a small share of the run
        [1.0] * 3 + [2.0] * 10,
        [3.0, 1.0] + [2.0] * 40 + [float("nan")],  # that is a finding, not a note
    ],
)
def test_a_loss_that_still_falls_or_is_short_is_not(losses: list[float]) -> None:
    assert said(losses) == []


def test_steps_that_begin_again_are_not_compared() -> None:
    assert said([3.0, 1.0] + [2.0] * 40, every=0) == []
