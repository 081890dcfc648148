# SPDX-License-Identifier: Apache-2.0
"""How ranks ended, asked directly: by hand, while waiting, while an exit handler blocks."""

from __future__ import annotations

import pytest

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import PeersWait, RankDoing, RankEnded
from keepstep.model.facts.process import ExceptionRaised, ProcessExited
from keepstep.model.identity import Rank
from keepstep.story.rank_endings import INTERRUPTED, ended_by_hand, ends_of, waited_to_the_end


def seen(*facts: tuple[Fact, int | None, float]) -> EvidenceSet:
    return EvidenceSet(
        items=tuple(
            Evidence(fact=fact, origin=Origin(source="notes"), rank=None if rank is None else Rank(index=rank), at=at)
            for fact, rank, at in facts
        )
    )


def ended(
    rank: int, *, status: int = 130, raised: str | None = INTERRUPTED, at: float = 100.0
) -> tuple[Fact, int, float]:
    return RankEnded(goodbye=True, status=status, raised=raised, steps=50, pid=1000 + rank, world=2), rank, at


def exited(rank: int, *, code: int | None = None, signal: str | None = None) -> tuple[Fact, int, float]:
    return ProcessExited(reporter="a launcher", code=code, signal=signal, pid=2000 + rank), rank, 101.0


def test_ctrl_c_ended_it() -> None:
    assert ended_by_hand(seen(ended(0), ended(1)))
    assert not ended_by_hand(seen(ended(0, status=0, raised=None)))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (exited(1, signal="SIGTERM"), True),
        (exited(1, signal="SIGSEGV"), False),
        (exited(1, code=3), False),
        (ended(1, status=1, raised="ValueError"), False),
        ((ExceptionRaised(type="KeyboardInterrupt", message=""), 1, 99.0), True),
        ((ExceptionRaised(type="ValueError", message="bad"), 1, 99.0), False),
    ],
)
def test_ctrl_c_ended_it_only_if_nothing_else_ended_badly(more: tuple[Fact, int, float], expected: bool) -> None:
    assert ended_by_hand(seen(ended(0), more)) == expected


WAIT = (PeersWait(waiting=(0,), late=(1,), seconds=5.0, steps=50), 0, 90.0)


def doing(
    rank: int, silent_s: float, *, steps: int = 50, usual_s: float = 0.1, phase: str = "compute"
) -> tuple[Fact, int, float]:
    fact = RankDoing(phase=phase, steps=steps, silent_s=silent_s, usual_step_s=usual_s, pid=1000 + rank, alive=False)
    return fact, rank, 100.0


@pytest.mark.parametrize(
    ("silent_s", "usual_s", "steps", "expected"),
    [
        (9.0, 0.1, 50, 9.0),
        (7.0, 0.1, 50, None),  # too short for a standstill
        (30.0, 1.0, 50, 30.0),
        (19.0, 1.0, 50, None),  # not even twenty of its steps
        (9.0, 0.1, 52, None),  # who was late went on
        (9.0, 0.1, 51, 9.0),
    ],
)
def test_ranks_that_waited_until_the_end(silent_s: float, usual_s: float, steps: int, expected: float | None) -> None:
    found = waited_to_the_end(
        seen(WAIT, doing(0, silent_s, usual_s=usual_s), doing(1, silent_s, usual_s=usual_s, steps=steps))
    )
    assert (found[1] if found is not None else None) == expected


def test_who_moved_only_to_exit_had_waited_since_the_guards_said_so() -> None:
    both = [doing(rank, 0.0, phase="end") for rank in range(2)]
    found = waited_to_the_end(seen(WAIT, *both, ended(0), ended(1, at=104.0)))
    assert found is not None and found[1] == 10.0


@pytest.mark.parametrize(("status", "badly"), [(1, True), (0, False)])
def test_who_failed_and_is_kept_by_an_exit_handler_has_ended(status: int, badly: bool) -> None:
    alive = (RankDoing(phase="end", steps=50, pid=1001, alive=True), 1, 100.0)
    ends = ends_of(seen(alive, ended(1, status=status, raised=None)))
    assert (1 in ends.badly, 1 in ends.well, ends.living) == (badly, False, frozenset({1}))
