# SPDX-License-Identifier: Apache-2.0
"""How long a rank was in each phase between two looks at its box."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keepstep.signals.blackbox import BoxPhase, Record, RecordKind
from keepstep.signals.phase_times import phase_times


def records(*fields: tuple[int, RecordKind, int, int]) -> list[Record]:
    """From the newest back."""
    return [Record(n, at, kind, value, extra) for n, (at, kind, value, extra) in enumerate(fields, 1)][::-1]


def test_every_nanosecond_is_in_one_phase() -> None:
    seen = records(
        (5, RecordKind.PHASE, BoxPhase.CHECKPOINT, 0),
        (20, RecordKind.PHASE, BoxPhase.INPUT, 0),
        (30, RecordKind.PHASE, BoxPhase.COMPUTE, 0),
        (45, RecordKind.STEP, 1, 25),
        (90, RecordKind.PHASE, BoxPhase.INPUT, 1),
    )
    found = phase_times(iter(seen), 10, 100, BoxPhase.CHECKPOINT)
    assert found.spent == {BoxPhase.CHECKPOINT: 10, BoxPhase.INPUT: 20, BoxPhase.COMPUTE: 60}
    assert (found.steps, found.last) == ([25], BoxPhase.INPUT)


def test_a_guard_that_shows_only_steps_computes() -> None:
    found = phase_times(iter(records((20, RecordKind.STEP, 1, 5))), 0, 100)
    assert found.spent == {BoxPhase.COMPUTE: 100} and found.last is BoxPhase.COMPUTE


@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from([1, 2, 5]), st.integers(0, 9)), max_size=30))
def test_the_parts_add_up(fields: list[tuple[int, int, int]]) -> None:
    seen = records(*((at, RecordKind(kind), value, 1) for at, kind, value in sorted(fields)))
    assert sum(phase_times(iter(seen), 50, 150, BoxPhase.INPUT, most=10).spent.values()) == 100
