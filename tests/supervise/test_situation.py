# SPDX-License-Identifier: Apache-2.0
"""Which kind of silence the policy is told of."""

from __future__ import annotations

import pytest

from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.attempt import kind_of
from keepstep.supervise.watch.hang_detector import Sign, Stop, Suspicion


def stop(kind: str, *phases: BoxPhase) -> Stop:
    signs = tuple(Sign(pid=rank + 1, rank=rank, at=10.0, phase=phase, steps=19) for rank, phase in enumerate(phases))
    suspicion = Suspicion(at=10.0, quiet_s=5.0, limit_s=5.0, kind=kind, usual_s=0.03, signs=signs, held_up=signs)
    return Stop(suspicion=suspicion, proven=False, at=10.0)


@pytest.mark.parametrize(
    ("awaited", "kind"),
    [((1,), "step"), ((0,), "checkpoint"), ((), "checkpoint"), ((0, 1), "checkpoint")],
    ids=["one sleeps in its step", "one saves", "nobody is known", "both"],
)
def test_a_rank_that_others_wait_for_inside_of_a_checkpoint_is_in_a_step(awaited: tuple[int, ...], kind: str) -> None:
    assert kind_of(stop("checkpoint", BoxPhase.CHECKPOINT, BoxPhase.COMPUTE), awaited) == kind


def test_a_rank_at_work_stays_at_work() -> None:
    assert kind_of(stop("busy", BoxPhase.CHECKPOINT, BoxPhase.COMPUTE), (1,)) == "busy"
