# SPDX-License-Identifier: Apache-2.0
"""Where steps are short the guard records one of them in full now and then, and keeps count of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.guard.hook_cost import EVERY, FEWEST, WHY, Thrift
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.signals import blackbox
from keepstep.signals.blackbox import LEAN, BoxPhase, Record, RecordKind
from keepstep.signals.pace import input_and_step, late_by_durations

MS = 1_000_000


@pytest.fixture
def session(tmp_path: Path) -> Session:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_SUPERVISOR": "1"}
    return Session(Identity(rank=0, world=1), env)


def records(session: Session, *kinds: RecordKind) -> list[Record]:
    session.close()
    assert session.folder is not None
    (path,) = session.folder.glob("*.box")
    return [each for each in blackbox.read(path.read_bytes()).records if each.kind in kinds]


def weigh(session: Session, thrift: Thrift, hooks_us: int, step_ms: float) -> int:
    """Two looks at a training with such steps and hooks; returns one step in how many is then recorded in full."""
    for _ in range(2):
        session.steps += FEWEST
        session.in_full += FEWEST
        session.spent_ns += FEWEST * hooks_us * 1000
        session.step_ended += round(FEWEST * step_ms * MS)
        thrift()
    return session.every


def test_hooks_that_are_dear_for_a_step_are_used_less_often_and_that_is_said(session: Session) -> None:
    session.open()
    thrift = Thrift(session)
    assert weigh(session, thrift, hooks_us=60, step_ms=100) == 1
    assert weigh(session, thrift, hooks_us=60, step_ms=10) == EVERY
    session.flush()
    assert session.folder is not None
    (notes,) = session.folder.glob("*.notes.jsonl")
    assert WHY in notes.read_text()
    assert weigh(session, thrift, hooks_us=60, step_ms=30) == EVERY, "not back and forth"
    assert weigh(session, thrift, hooks_us=60, step_ms=100) == 1
    session.close()


def test_a_rank_that_is_kept_from_its_processor_goes_on_to_record_long_steps(session: Session) -> None:
    assert weigh(session, Thrift(session), hooks_us=900, step_ms=100) == 1


def test_what_is_done_once_at_the_start_is_not_what_a_step_costs(session: Session) -> None:
    thrift = Thrift(session)
    session.steps = session.in_full = FEWEST
    session.spent_ns, session.step_ended = 10_000 * MS, 100 * MS
    thrift()
    assert session.every == 1
    assert weigh(session, thrift, hooks_us=20, step_ms=10) == 1


@pytest.mark.parametrize("strict", [True, False])
def test_every_batch_is_looked_at_where_the_user_asked_for_it(session: Session, strict: bool) -> None:
    session.strict = strict
    if not strict:
        session.batches.labels["[1]"] = (0, 9)
    assert weigh(session, Thrift(session), hooks_us=60, step_ms=10) == 1


def test_a_lean_step_is_counted_and_its_phases_are_known_but_not_written(session: Session) -> None:
    session.open()
    session.phase(BoxPhase.COMPUTE)
    session.every = 3
    for _ in range(7):
        session.phase(BoxPhase.INPUT)
        assert session.phase_now == BoxPhase.INPUT
        session.phase(BoxPhase.COMPUTE)
        session.step_done()
    steps = records(session, RecordKind.STEP)
    assert [step.value for step in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert [step.value for step in steps if step.spare != LEAN] == [1, 4, 7]
    phases = [each.extra for each in records(session, RecordKind.PHASE) if each.value == BoxPhase.INPUT]
    assert phases == [0, 3, 6], "each by the steps that were done before it"


def test_a_pause_of_the_training_is_always_written(session: Session) -> None:
    session.open()
    session.phase(BoxPhase.COMPUTE)
    session.every = 100
    session.step_done()
    assert session.lean
    with session.during(BoxPhase.EVALUATION):
        assert not session.lean
    session.step_done()
    last = records(session, RecordKind.PHASE, RecordKind.STEP)[-4:]
    assert [(each.kind, each.value) for each in last[:3]] == [
        (RecordKind.PHASE, BoxPhase.EVALUATION),
        (RecordKind.PHASE, BoxPhase.COMPUTE),
        (RecordKind.STEP, 2),
    ]


def test_a_lean_step_that_takes_long_is_written_down_by_the_guards_thread(session: Session) -> None:
    session.open()
    session.phase(BoxPhase.COMPUTE)
    session.every = 100
    session.step_done()
    session.phase(BoxPhase.INPUT)
    while session.lean:  # until the guard's thread has seen that there is no progress
        assert session.phase_now == BoxPhase.INPUT
    session.phase(BoxPhase.COMPUTE)
    last = [each.value for each in records(session, RecordKind.PHASE)]
    assert last[-3:] == [BoxPhase.INPUT, BoxPhase.COMPUTE, BoxPhase.END]


def test_lean_steps_do_not_hide_who_waits_for_its_batches() -> None:
    def rank(waits_ms: int) -> list[Record]:
        found: list[Record] = []
        for number in range(1, 40 * EVERY):
            at, lean = number * 100 * MS, number % EVERY != 1
            if not lean:
                found.append(Record(len(found) + 1, at, RecordKind.PHASE, BoxPhase.INPUT, number - 1))
                found.append(Record(len(found) + 1, at + waits_ms * MS, RecordKind.PHASE, BoxPhase.COMPUTE, number - 1))
            found.append(Record(len(found) + 1, at + 99 * MS, RecordKind.STEP, number, 100 * MS, LEAN if lean else 0))
        return found

    assert input_and_step(rank(70)) == (70 * MS, 100 * MS, 40)
    (late,) = late_by_durations({0: rank(1), 1: rank(70), 2: rank(2)})
    assert (late.rank, late.phase, round(late.seconds, 3)) == (1, BoxPhase.INPUT, 0.07)


@pytest.mark.parametrize("trial", [False, True])
def test_a_trial_of_shrink_records_every_step_as_its_first_run_did(tmp_path: Path, trial: bool) -> None:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_SUPERVISOR": "1"}
    session = Session(Identity(rank=0, world=1), env | ({"KEEPSTEP_TRIAL": str(tmp_path)} if trial else {}))
    session.open()
    session.close()
    assert (Thrift.part in {each.part for each in session.pulse._tasks}) != trial
