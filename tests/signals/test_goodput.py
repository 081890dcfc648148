# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run went: every second in one bucket, whatever was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.goodput import (
    ENDING,
    ORDINARILY,
    TRIES_AGAIN,
    UNEXPLAINED,
    AttemptTimes,
    Bucket,
    Goodput,
    Measured,
    goodput_of,
)

COMPUTE, INPUT, START, CHECKPOINT = BoxPhase.COMPUTE, BoxPhase.INPUT, BoxPhase.START, BoxPhase.CHECKPOINT


def span(
    start: float,
    *shares: dict[BoxPhase, float],
    attempt: int = 0,
    step: float = 5.0,
    still: float = 0.0,
    long: float = 10,
) -> Measured:
    """One measurement of as many ranks as there are shares."""
    phases = {phase for each in shares for phase in each}
    columns = {phase: [each.get(phase, 0.0) for each in shares] for phase in phases}
    ranks = len(shares)
    return Measured(attempt, start, start + long, range(ranks), columns, [step] * ranks, [still] * ranks)


def seconds(found: Goodput) -> dict[str, float]:
    return {bucket.name: round(value, 3) for bucket, value in found.buckets.items() if value}


def test_phases_become_buckets() -> None:
    alone = {START: 0.2, COMPUTE: 0.7, CHECKPOINT: 0.1}
    found = goodput_of([AttemptTimes(0, 0, 20)], [span(0, alone), span(10, {COMPUTE: 1.0})], 0, 20, [0])
    assert seconds(found) == {"TRAINING_PREP": 2.0, "PRODUCTIVE": 17.0, "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME": 1.0}
    assert found.share == pytest.approx(0.85) and found.unexplained_s == 0


def test_a_rank_that_waits_for_its_batches_keeps_the_others_waiting() -> None:
    slow, fast = {INPUT: 0.4, COMPUTE: 0.6}, {INPUT: 0.0, COMPUTE: 1.0}
    attempt = AttemptTimes(0, 0, 10, slow="rank 0 waits for its batches")
    found = goodput_of([attempt], [span(0, slow, fast, fast)], 0, 10, [0, 1, 2])
    assert seconds(found) == {"DATA_LOADING_SYNC": 4.0, "PRODUCTIVE": 18.0, "WAITING_FOR_ANOTHER_RANK": 8.0}
    assert {why for _, why in found.lost} == {"rank 0 waits for its batches"}


def test_a_rank_that_computes_longer_keeps_the_others_waiting() -> None:
    all_compute = replace(span(0, *[{COMPUTE: 1.0}] * 3), busy=[0.5, 0.95, 0.9])
    found = goodput_of([AttemptTimes(0, 0, 10)], [all_compute], 0, 10, [0, 1, 2])
    assert seconds(found) == {"PRODUCTIVE": 25.5, "WAITING_FOR_ANOTHER_RANK": 4.5}
    assert {why for _, why in found.lost} == {"rank 1 computes longer than the others"}
    assert found.waited_for == {(1, "computes longer than the others"): pytest.approx(4.5)}
    unknown = replace(all_compute, busy=[float("nan"), 0.95, 0.9])
    assert seconds(goodput_of([AttemptTimes(0, 0, 10)], [unknown], 0, 10, [0, 1, 2])) == {"PRODUCTIVE": 30.0}


def test_a_standstill_that_was_too_short_to_be_seen_shows_by_the_steps_that_are_missing() -> None:
    done = [20, 40, 60, 66, 66, 72, 92, 112]  # of 20 in a second: none for 2.4 s

    def spans(busy: float) -> list[Measured]:
        one = [span(at, *[{COMPUTE: 1.0}] * 2, step=step, long=1) for at, step in enumerate(done)]
        return [replace(each, busy=[busy] * 2) for each in one]

    found = goodput_of([AttemptTimes(0, 0, 8)], spans(0.1), 0, 8, [0, 1])
    assert found.lost == {(Bucket.WAITING_FOR_ANOTHER_RANK, UNEXPLAINED): pytest.approx(4.8)}
    told = AttemptTimes(0, 0, 8, stalls=((6.5, "waited for rank 1"),))
    assert {why for _, why in goodput_of([told], spans(0.1), 0, 8, [0, 1]).lost} == {"waited for rank 1"}
    working = goodput_of([AttemptTimes(0, 0, 8)], spans(0.9), 0, 8, [0, 1])
    assert seconds(working) == {"PRODUCTIVE": 16.0}, "a long step of a rank that works is no standstill"


def test_a_rank_that_saves_alone_keeps_the_others_waiting() -> None:
    saving = span(10, {CHECKPOINT: 0.6, COMPUTE: 0.4}, {COMPUTE: 1.0})
    attempt = AttemptTimes(0, 0, 20, failed=True, cause="rank 1 crashed later")
    found = goodput_of([attempt], [span(0, *[{COMPUTE: 1.0}] * 2), saving], 0, 20, [0, 1])
    assert found.lost == {
        (Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME, ORDINARILY): pytest.approx(6.0),
        (Bucket.WAITING_FOR_ANOTHER_RANK, "rank 0 saves a checkpoint"): pytest.approx(6.0),
    }


def test_a_pause_has_its_own_reason() -> None:
    spans = [span(0, {BoxPhase.RETRY: 0.5, COMPUTE: 0.5})]
    for asked, why in (("the disk is full", "the disk is full"), (None, TRIES_AGAIN)):
        found = goodput_of([AttemptTimes(0, 0, 10, paused=asked)], spans, 0, 10, [0])
        assert found.lost == {(Bucket.PAUSED, why): 5.0}


def test_steps_that_were_done_again_are_lost() -> None:
    attempts = [
        AttemptTimes(0, 0, 100, failed=True, cause="rank 1 was killed", unsaved_s=30.0),
        AttemptTimes(1, 105, 205, resumed=True),
    ]
    spans = [span(0, {COMPUTE: 1.0}, long=100), span(105, {COMPUTE: 1.0}, attempt=1, long=100)]
    found = goodput_of(attempts, spans, 0, 205, [0])
    assert seconds(found) == {
        "PRODUCTIVE": 170.0,
        "WASTED_PROGRESS_FROM_DISRUPTION": 30.0,
        "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION": 5.0,
    }
    assert {why for _, why in found.lost} == {"rank 1 was killed"}


def test_from_the_first_step_again_everything_before_is_lost() -> None:
    attempts = [
        AttemptTimes(0, 0, 50, failed=True, cause="a", unsaved_s=1.0),
        AttemptTimes(1, 50, 100, failed=True, cause="b", resumed=True, unsaved_s=1.0),
        AttemptTimes(2, 100, 150, resumed=False),
    ]
    spans = [span(50 * each, {COMPUTE: 1.0}, attempt=each, long=50) for each in range(3)]
    found = goodput_of(attempts, spans, 0, 150, [0])
    assert seconds(found) == {"PRODUCTIVE": 50.0, "WASTED_PROGRESS_FROM_DISRUPTION": 100.0}


def test_a_hang_is_time_that_the_others_wait() -> None:
    attempt = AttemptTimes(0, 0, 20, failed=True, cause="rank 1 never comes to the collective", culprits=(1,))
    both = {COMPUTE: 1.0}
    found = goodput_of([attempt], [span(0, both, both), span(10, both, both, still=1.0)], 0, 20, [0, 1])
    assert seconds(found) == {"PRODUCTIVE": 20.0, "WAITING_FOR_ANOTHER_RANK": 10.0, "OTHER": 10.0}
    assert found.unexplained_s == 0.0


def test_a_standstill_that_ended_is_not_explained_by_the_later_end() -> None:
    both = {COMPUTE: 1.0}
    spans = [span(0, both, both, still=1.0), span(10, both, both)]
    for told, why in (((), UNEXPLAINED), (((12.0, "rank 1 slept"),), "rank 1 slept")):
        attempt = AttemptTimes(0, 0, 20, failed=True, cause="rank 0 raised", culprits=(0,), stalls=told)
        found = goodput_of([attempt], spans, 0, 20, [0, 1])
        assert found.lost == {(Bucket.WAITING_FOR_ANOTHER_RANK, why): 20.0}


def test_each_standstill_has_the_words_that_were_said_of_it() -> None:
    both = {COMPUTE: 1.0}
    stands = [span(start, both, both, still=float(start in (0, 20, 30, 70))) for start in range(0, 100, 10)]
    told = ((12.0, "rank 1 slept"), (43.0, "rank 0 read a file"))
    found = goodput_of([AttemptTimes(0, 0, 100, stalls=told)], stands, 0, 100, [0, 1])
    waits = Bucket.WAITING_FOR_ANOTHER_RANK
    assert found.lost == {
        (waits, "rank 1 slept"): 20.0,
        (waits, "rank 0 read a file"): 40.0,
        (waits, UNEXPLAINED): 20.0,
    }


def test_what_nothing_explains_says_so() -> None:
    found = goodput_of([AttemptTimes(0, 0, 10)], [span(0, {INPUT: 0.5, COMPUTE: 0.5})], 0, 12, [0])
    assert found.lost == {(Bucket.DATA_LOADING_SYNC, UNEXPLAINED): 5.0, (Bucket.OTHER, ENDING): 2.0}


def test_without_a_guard_nothing_is_claimed() -> None:
    assert goodput_of([AttemptTimes(0, 0, 10)], [], 0, 10, [0, 1]).share is None


TIMES = st.floats(0, 1000, allow_nan=False)
SHARES = st.dictionaries(st.sampled_from(BoxPhase), st.floats(0, 1), max_size=4)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[AttemptTimes], list[Measured], float, float, int]:
    ranks = draw(st.integers(1, 4))
    start, end = sorted((draw(TIMES), draw(TIMES)))
    attempts = [
        AttemptTimes(
            number,
            *sorted((draw(TIMES), draw(TIMES))),
            failed=draw(st.booleans()),
            cause=draw(st.sampled_from([None, "why"])),
            culprits=(0,),
            resumed=draw(st.sampled_from([None, True, False])),
            unsaved_s=draw(st.none() | TIMES),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    spans = [
        span(
            draw(TIMES),
            *(draw(SHARES) for _ in range(ranks)),
            attempt=draw(st.integers(0, 3)),
            step=draw(st.sampled_from([0.0, 5.0, float("nan")])),
            still=draw(st.sampled_from([0.0, 1.0, float("nan")])),
            long=draw(st.sampled_from([1.0, 10.0, 60.0])),
        )
        for _ in range(draw(st.integers(0, 12)))
    ]
    return attempts, spans, start, end, ranks


Run = tuple[list[AttemptTimes], list[Measured], float, float, int]


@given(runs())
def test_the_buckets_add_up_to_the_time_of_the_run(
    run: tuple[list[AttemptTimes], list[Measured], float, float, int],
) -> None:
    attempts, spans, start, end, ranks = run
    found = goodput_of(attempts, spans, start, end, range(ranks))
    whole = ranks * (end - start)
    assert sum(found.buckets.values()) == pytest.approx(whole, rel=0.005, abs=1e-6)
    assert found.lost_s + found.buckets.get(Bucket.PRODUCTIVE, 0.0) == pytest.approx(whole, rel=0.005, abs=1e-6)
    assert all(value >= 0 for value in found.buckets.values())
