# SPDX-License-Identifier: Apache-2.0
"""How long a suspected hang is waited for, what a restart may lose, and what ends the wait: tables of attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keepstep.cli.run import _seconds
from keepstep.errors import UserError
from keepstep.model.cause import Cause
from keepstep.model.facts.process import ExceptionRaised
from keepstep.model.finding import Confidence
from keepstep.model.report import Verdict
from keepstep.supervise.decide.decision import Action, Settings
from keepstep.supervise.decide.policy import decide
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.watch.hang_detector import Sign, Watch
from tests.supervise.test_policy import attempt, report

HANG = Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK


def silent(number: int = 0, **known: Any) -> Situation:
    """A rank that is idle in a step, in a run whose restart costs 14 s."""
    usual: dict[str, Any] = {
        "happened": Happened.SUSPECTED,
        "code": None,
        "kind": "step",
        "stopped_s": 4.0,
        "idle_s": 4.0,
        "usual_s": 0.02,
    }
    usual |= {
        "start_s": 3.0,
        "unsaved_s": 11.0,
        "work_s": 40.0,
        "saved": True,
        "resumed": False,
        "saved_step": 200,
        "steps": 420,
        "place": "train.py:7",
    }
    return attempt(HANG, number, **usual | known)


def test_it_waits_as_long_as_a_restart_costs_and_says_both_numbers() -> None:
    first = decide(silent())
    assert (first.action, first.wait_s) == (Action.WAIT, 10.0)
    assert "a restart costs about 14 s (3.0 s to start, 11 s of work since step 200); waiting 14 s" in first.words
    then = decide(silent(stopped_s=14.5, idle_s=14.1))
    assert (
        then.action is Action.RESTART and "a restart costs about 14 s" in then.reason and "idle for 14 s" in then.reason
    )


@pytest.mark.parametrize(
    ("known", "wait_s"),
    [
        ({"unsaved_s": 0.1, "start_s": 0.4}, 1.0),
        ({"saved_step": None, "saved": False}, 39.0),
        ({"kind": "between"}, 10.0),
        ({"kind": "alone"}, 10.0),
        ({"kind": "start"}, 596.0),
        ({"kind": "compile"}, 596.0),
        ({"kind": "evaluation"}, 596.0),
        ({"kind": "checkpoint"}, 596.0),
        ({"kind": "unguarded", "start_s": None}, 596.0),
        ({"start_s": None}, 596.0),
        ({"unsaved_s": 3600.0}, 596.0),
        ({"stopped_s": 20.0, "idle_s": 6.0}, 8.0),
    ],
    ids=[
        "never less than 5 s",
        "nothing saved",
        "between",
        "alone",
        "start",
        "compile",
        "evaluation",
        "checkpoint",
        "no guard",
        "no step yet",
        "an hour of work",
        "it worked meanwhile",
    ],
)
def test_how_long(known: dict[str, Any], wait_s: float) -> None:
    decision = decide(silent(**known))
    assert (decision.action, decision.wait_s) == (Action.WAIT, pytest.approx(wait_s))


@pytest.mark.parametrize("known", [{"idle_s": 0.5, "stopped_s": 5000.0}, {"kind": "busy", "stopped_s": 5000.0}])
def test_a_busy_rank_is_reported_and_never_restarted(known: dict[str, Any]) -> None:
    decision = decide(silent(**known))
    assert (decision.action, decision.wait_s) == (Action.WAIT, 30.0)
    assert "rank 1 is at work" in decision.reason


def test_the_same_line_and_step_get_twice_as_long_once_and_then_end_the_run() -> None:
    again, first = silent(1, steps=421), silent()
    waits = decide(again, (first,))
    assert (waits.action, waits.wait_s) == (Action.WAIT, 24.0)
    assert "waiting 28 s, 2 times as long because" in waits.reason and "then the run is ended" in waits.reason
    over = decide(replace(again, stopped_s=28.5, idle_s=28.5), (first,))
    assert over.action is Action.END and "attempt 0 ended the same way at the same place" in over.reason
    last = decide(again, (first,), Settings(max_attempts=2))
    assert (last.action, last.wait_s) == (Action.WAIT, 24.0), "it was waited for before"
    elsewhere = silent(1, place="train.py:90")
    assert decide(elsewhere, (first,)).wait_s == 10.0
    assert decide(replace(elsewhere, stopped_s=28.5, idle_s=28.5), (first,)).action is Action.RESTART
    assert decide(silent(), settings=Settings(max_attempts=1)).wait_s == 596.0


@pytest.mark.parametrize("kind", ["step", "checkpoint", "end"])
def test_different_collectives_end_the_run_after_twenty_seconds_in_any_phase(kind: str) -> None:
    """A save that only one rank joined: the others go on to their next step, and all wait."""
    apart = report(Cause.SYNC_COLLECTIVE_MISMATCH, confidence=Confidence.SUPPORTED)
    first = decide(silent(report=apart, kind=kind))
    assert (first.action, first.wait_s) == (Action.WAIT, 16.0)
    assert "if no rank moves by then, the run is ended" in first.reason
    assert decide(silent(report=apart, kind=kind, stopped_s=20.5, idle_s=20.5)).action is Action.END
    assert decide(silent(report=apart, kind=kind, stopped_s=20.5, idle_s=0.5)).action is Action.WAIT
    guess = report(Cause.SYNC_COLLECTIVE_MISMATCH, confidence=Confidence.HYPOTHESIS)
    assert decide(silent(report=guess, kind="checkpoint", stopped_s=20.5, idle_s=20.5)).action is Action.WAIT


def test_a_place_whose_silence_once_ended_by_itself_gets_three_times_that() -> None:
    waits = decide(silent(endured_s=20.0))
    assert (waits.action, waits.wait_s) == (Action.WAIT, 56.0)
    assert "waiting 60 s, because a silence of 20 s at the same place ended by itself before" in waits.reason
    assert decide(silent(endured_s=1.0)).wait_s == 10.0


def test_the_same_line_at_another_step_is_waited_for_longer_each_time() -> None:
    before: list[Situation] = []
    for number, wait_s in enumerate([10.0, 24.0, 52.0]):
        now = silent(number, steps=420 + 100 * number)
        assert decide(now, tuple(before)).wait_s == wait_s
        over = decide(replace(now, stopped_s=700.0, idle_s=700.0), tuple(before))
        assert (over.action, over.attempts_left) == (Action.RESTART, 3)
        before.append(now)


@pytest.mark.parametrize(
    ("attempts", "words"),
    [
        (1, ", and this is the last attempt; if there is none by then, the run is ended"),
        (2, "by then, it is restarted"),
    ],
)
def test_what_follows_a_long_wait_is_said(attempts: int, words: str) -> None:
    decision = decide(silent(kind="start"), settings=Settings(max_attempts=attempts))
    assert words in decision.reason and ("last attempt" in decision.reason) is (attempts == 1)


def test_a_wait_that_is_just_over_is_over() -> None:
    assert decide(silent(stopped_s=14.0, idle_s=14.0)).action is Action.RESTART


def test_what_the_user_sets_goes_first() -> None:
    decision = decide(silent(stopped_s=4.0), settings=Settings(suspected_wait_s=30.0))
    assert decision.wait_s == 26.0


def test_what_is_proven_is_not_waited_for() -> None:
    mismatch = report(Cause.SYNC_COLLECTIVE_MISMATCH)
    assert decide(silent(report=mismatch)).action is Action.END
    guess = report(Cause.SYNC_COLLECTIVE_MISMATCH, confidence=Confidence.HYPOTHESIS)
    assert decide(silent(report=guess)).action is Action.WAIT


@pytest.mark.parametrize(
    ("type_", "settings", "action"),
    [
        ("ValueError", Settings(), Action.END),
        ("ConnectionResetError", Settings(), Action.RESTART),
        ("ConnectionResetError", Settings(max_attempts=1), Action.END),
        ("ValueError", Settings(restarts=False), Action.WAIT),
    ],
)
def test_a_rank_that_raised_and_did_not_exit_is_decided_at_once(type_: str, settings: Settings, action: Action) -> None:
    raised = attempt(
        Cause.USER_CODE_EXCEPTION,
        0,
        ExceptionRaised(type=type_, message="x"),
        happened=Happened.RAISED,
        code=None,
        steps=5,
    )
    decision = decide(raised, settings=settings)
    assert decision.action is action
    if action is Action.WAIT:
        assert "it is left running" in decision.reason


LONG: dict[str, Any] = {"work_s": 3600.0, "steps": 900, "code": None, "signal": "SIGKILL"}
KILLED = Cause.RESOURCE_HOST_OOM_KILLED


@pytest.mark.parametrize(
    ("now", "before", "action", "words"),
    [
        (
            attempt(KILLED, 0, saved=True, resumed=False, **LONG),
            (),
            Action.RESTART,
            "it is unknown whether this script resumes",
        ),
        (attempt(KILLED, 0, saved=True, resumed=True, **LONG), (), Action.RESTART, None),
        (
            attempt(KILLED, 0, saved=False, resumed=False, **LONG),
            (),
            Action.RESTART,
            "no checkpoint was saved: a restart begins at the first step and loses 60 min",
        ),
        (
            attempt(KILLED, 0, saved=False, resumed=False, happened=Happened.STOPPED, **LONG),
            (),
            Action.END,
            "would lose more than 10 min of work",
        ),
        (
            attempt(KILLED, 1, saved=True, resumed=False, **{**LONG, "steps": 950}),
            (attempt(KILLED, saved=True, **LONG),),
            Action.END,
            "loaded none",
        ),
        (
            attempt(KILLED, 1, saved=True, resumed=True, **{**LONG, "steps": 950}),
            (attempt(KILLED, saved=True, **LONG),),
            Action.RESTART,
            None,
        ),
        (attempt(KILLED, 0, saved=None, resumed=None, **LONG), (), Action.RESTART, None),
    ],
    ids=[
        "not known",
        "it resumes",
        "crash, nothing saved",
        "hang, nothing saved",
        "seen not to load",
        "came back before",
        "no guard",
    ],
)
def test_a_restart_that_would_lose_much_is_not_done_unasked(
    now: Situation, before: tuple[Situation, ...], action: Action, words: str | None
) -> None:
    decision = decide(now, before)
    assert decision.action is action
    assert words in decision.words if words else "note:" not in decision.words
    assert decide(now, before, Settings(max_lost_work_s=None)).action is Action.RESTART


def test_a_script_that_starts_over_is_ended_before_it_overwrites() -> None:
    decision = decide(attempt(None, 1, happened=Happened.STARTED_OVER, code=None))
    assert decision.action is Action.END and decision.repeats and "before it overwrites" in decision.reason


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("30", 30.0), ("off", None)]
)
def test_times_are_read(text: str, seconds: float | None) -> None:
    assert _seconds(text) == seconds


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(UserError):
        _seconds("soon")


def test_every_sign_of_work_counts() -> None:
    watch = Watch()
    sign = Sign(pid=7, at=100.0)
    watch.see([sign], 100.0)
    for n in range(1, 11):
        watch.see([replace(sign, at=100.0 + n)], 100.0 + n)
    assert watch.idle_s({7}, 110.0) == 10.0
    watch.see([replace(sign, at=111.0, runs=True)], 111.0)
    assert watch.idle_s({7}, 111.0) == 11.0, "once is chance"
    watch.see([replace(sign, at=112.0, runs=True)], 112.0)
    assert watch.idle_s({7}, 112.0) == 0.0
    watch.works(7, 113.0)
    assert watch.idle_s({7}, 115.0) == 2.0
    watch.see([replace(sign, at=116.0, transferred=1 << 20)], 116.0)
    assert watch.idle_s({7}, 116.0) == 0.0


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(Confidence.ESTABLISHED, "; that may end by itself"), (Confidence.SUPPORTED, ", but this is not proven")],
)
def test_the_decision_is_as_sure_of_a_silence_as_the_report(confidence: Confidence, words: str) -> None:
    known = report(HANG, confidence=confidence)
    now = replace(silent(), report=replace(known, verdict=Verdict.HUNG))
    assert now.root is not None
    assert f"{now.root.title}{words}" in decide(now).reason
