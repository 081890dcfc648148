# SPDX-License-Identifier: Apache-2.0
"""Questions that rules ask of all evidence."""

from __future__ import annotations

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.training import StepSeen


def survived(*facts: Fact) -> bool:
    items = tuple(Evidence(fact=fact, origin=Origin(source="log", line=line)) for line, fact in enumerate(facts, 1))
    return EvidenceSet(items=items).survived(next(e for e in items if isinstance(e.fact, PortTaken)))


def test_two_further_steps_are_training_that_went_on():
    assert survived(StepSeen(step=1, of=9), PortTaken(), StepSeen(step=2, of=9), StepSeen(step=3, of=9))


def test_nested_bars_that_are_drawn_again_are_not():
    bars = (StepSeen(step=3, of=75), StepSeen(step=40, of=51))
    assert not survived(*bars, PortTaken(), *bars)


def test_bars_at_zero_are_not():
    assert not survived(PortTaken(), StepSeen(step=0, of=75), StepSeen(step=0, of=51))


def test_the_steps_of_the_next_epoch_are():
    epoch = tuple(StepSeen(step=n, of=5) for n in range(1, 6))
    assert survived(*epoch, PortTaken(), *epoch)
