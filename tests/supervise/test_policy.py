# SPDX-License-Identifier: Apache-2.0
"""What is decided about a failed attempt: a table of reports and histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import ContractBroken, RankDoing
from keepstep.model.facts.process import ExceptionRaised, ProcessExited
from keepstep.model.facts.training import Phase, PhaseSeen, StepSeen
from keepstep.model.finding import Confidence, Finding, Fix, Safety, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep.supervise.decide.attempt_history import budget_used, is_final
from keepstep.supervise.decide.attempt_progress import progress_of
from keepstep.supervise.decide.cause_recurs import KNOWN, Returns
from keepstep.supervise.decide.decision import Action, Decision, Settings
from keepstep.supervise.decide.hang_patience import backoff_s
from keepstep.supervise.decide.older_checkpoint import Older
from keepstep.supervise.decide.policy import decide
from keepstep.supervise.decide.remedy import Remedy, RemedyMode
from keepstep.supervise.decide.situation import Happened, Situation

RAISE = Remedy(name="raise RLIMIT_NOFILE", does="raise the limit on open files", limits=(("RLIMIT_NOFILE", 4096),))
SMALLER = Remedy(name="batch", does="halve the batch", safety=Safety.CHANGES_RESULTS)
NO_IB = Remedy(name="NCCL_IB_DISABLE", does="see whether TCP works", safety=Safety.NEEDS_OWNER, advice_only=True)


def report(
    cause: Cause | None,
    *facts: Fact,
    confidence: Confidence = Confidence.ESTABLISHED,
    severity: Severity = Severity.FATAL,
) -> Report:
    if cause is None:
        return Report(verdict=Verdict.UNKNOWN)
    facts = facts or (ProcessExited(reporter="keepstep run", code=1),)
    evidence = tuple(Evidence(fact=fact, origin=Origin(source="rank1.log", line=1)) for fact in facts)
    finding = Finding(
        rule="X001",
        cause=cause,
        title=f"rank 1 met {cause.label}",
        because="it was seen",
        evidence=evidence,
        ranks=(1,),
        confidence=confidence,
        severity=severity,
        standing=Standing.MECHANISM,
        fixes=(Fix(do="look into it"),),
    )
    return Report(verdict=Verdict.FAILED, findings=(finding,))


def attempt(
    cause: Cause | None = Cause.UNKNOWN_NOT_ESTABLISHED, number: int = 0, *facts: Fact, **known: Any
) -> Situation:
    found = known.pop("report", None) or report(cause, *facts)
    return Situation(
        **{"number": number, "happened": Happened.EXITED, "report": found, "first_rank": 1, "code": 1, **known}
    )


def test_every_cause_of_the_vocabulary_has_a_standing() -> None:
    assert set(KNOWN) == set(Cause)
    assert all(why and not why.endswith(".") for _, why in KNOWN.values())


@pytest.mark.parametrize(
    "cause",
    [
        Cause.USER_CODE_EXCEPTION,
        Cause.CONFIG_CLUSTER_SPEC,
        Cause.DATA_SHAPE_MISMATCH,
        Cause.ENV_MISSING_SHARED_LIBRARY,
        Cause.CHECKPOINT_CORRUPT_OR_MISSING,
        Cause.NUMERIC_NAN_OR_DIVERGENCE,
    ],
)
def test_what_comes_back_surely_ends_the_run_at_once(cause: Cause) -> None:
    decision = decide(attempt(cause, steps=500))
    assert decision.action is Action.END
    assert decision.words.startswith(f"decision: end the run: rank 1 met {cause.label}: ")
    assert "advice: look into it" in decision.words


@pytest.mark.parametrize(
    "cause", [Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.RESOURCE_HOST_OOM_KILLED, Cause.FRAMEWORK_BUG_SEGFAULT]
)
def test_what_may_pass_restarts_at_once_the_first_time(cause: Cause) -> None:
    decision = decide(attempt(cause, steps=500))
    assert (decision.action, decision.wait_s, decision.attempts_left) == (Action.RESTART, 0.0, 3)
    assert decision.words.startswith("decision: restart now: ")


def test_a_cause_that_is_only_guessed_does_not_end_the_run() -> None:
    guess = report(Cause.DATA_SHAPE_MISMATCH, confidence=Confidence.HYPOTHESIS)
    assert decide(attempt(report=guess, steps=3)).action is Action.RESTART


@pytest.mark.parametrize(
    ("type_", "action"),
    [("ModuleNotFoundError", Action.END), ("TypeError", Action.END), ("RuntimeError", Action.RESTART)],
)
def test_an_exception_that_only_the_program_raises_ends_it_whatever_its_words_may_mean(
    type_: str, action: Action
) -> None:
    guess = report(
        Cause.ENV_MISSING_SHARED_LIBRARY, ExceptionRaised(type=type_, message="x"), confidence=Confidence.HYPOTHESIS
    )
    assert decide(attempt(report=guess)).action is action


def test_a_finding_that_kills_nothing_is_not_decided_upon() -> None:
    slow = report(Cause.SLOW_STRAGGLER, severity=Severity.FATAL)
    decision = decide(attempt(report=slow, steps=3, signal="SIGKILL", code=None))
    assert decision.action is Action.RESTART
    assert "rank 1 was killed by SIGKILL" in decision.reason


@pytest.mark.parametrize(
    ("type_", "message", "action"),
    [
        ("ValueError", "bad value", Action.END),
        ("KeyError", "'x'", Action.END),
        ("requests.exceptions.ConnectionError", "Max retries exceeded", Action.RESTART),
        ("requests.exceptions.ReadTimeout", "timed out", Action.RESTART),
        ("ConnectionResetError", "[Errno 104] Connection reset by peer", Action.RESTART),
        ("OSError", "[Errno 5] Input/output error: '/mnt/data/x'", Action.RESTART),
        ("OSError", "[Errno 116] Stale file handle", Action.RESTART),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'x'", Action.END),
        ("PermissionError", "[Errno 13] Permission denied", Action.END),
        ("urllib.error.HTTPError", "HTTP Error 503: Service Unavailable", Action.RESTART),
        ("urllib.error.HTTPError", "HTTP Error 404: Not Found", Action.END),
    ],
)
def test_exceptions_that_speak_of_the_world_may_pass(type_: str, message: str, action: Action) -> None:
    fact = ExceptionRaised(type=type_, message=message)
    assert decide(attempt(Cause.USER_CODE_EXCEPTION, 0, fact, steps=10)).action is action


def test_device_memory_is_a_matter_of_the_program_only_in_its_first_step() -> None:
    assert decide(attempt(Cause.RESOURCE_GPU_OOM, steps=0)).action is Action.END
    assert decide(attempt(Cause.RESOURCE_GPU_OOM, steps=900)).action is Action.RESTART


def test_ranks_that_are_built_differently_stay_so() -> None:
    broken = ContractBroken(subject="plan", ordinal=0, what="op", values=(("a", (0,)), ("b", (1,))), certain=True)
    assert decide(attempt(Cause.SYNC_COLLECTIVE_MISMATCH, 0, broken)).action is Action.END
    assert decide(attempt(Cause.SYNC_COLLECTIVE_MISMATCH)).action is Action.END
    guess = report(Cause.SYNC_COLLECTIVE_MISMATCH, confidence=Confidence.HYPOTHESIS)
    assert decide(attempt(report=guess)).action is Action.RESTART


def test_the_same_cause_at_the_same_step_twice_is_no_accident() -> None:
    first = attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 0, steps=12)
    again = decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 1, steps=12), (first,))
    assert again.action is Action.END
    assert "attempt 0 ended the same way at the same place (after 12 steps)" in again.reason
    assert decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 1, steps=13), (first,)).action is Action.RESTART
    assert decide(attempt(Cause.RESOURCE_HOST_OOM_KILLED, 1, steps=12), (first,)).action is Action.RESTART
    unknown = replace(first, steps=None, lived_s=3600.0)
    assert decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 1, lived_s=3000.0), (unknown,)).action is Action.RESTART
    assert (
        decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 1, lived_s=3.0), (replace(unknown, lived_s=2.0),)).action
        is Action.END
    )


def test_the_same_step_is_known_by_its_number_when_a_run_resumes() -> None:
    first = attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 0, steps=12, shown_step=12, shown_every=1)
    resumed = attempt(Cause.FRAMEWORK_BUG_SEGFAULT, 1, steps=2, shown_step=12, shown_every=1, resumed=True)
    assert decide(resumed, (first,)).action is Action.END
    # with a number every 20 steps, the same number says little
    first, resumed = (replace(each, shown_every=20, shown_step=0) for each in (first, resumed))
    assert decide(resumed, (first,)).action is Action.RESTART


def test_the_same_death_without_a_known_cause_counts_too() -> None:
    first = attempt(None, 0, steps=7, code=None, signal="SIGKILL")
    assert decide(attempt(None, 1, steps=7, code=None, signal="SIGKILL"), (first,)).action is Action.END
    assert decide(attempt(None, 1, steps=7, code=None, signal="SIGSEGV"), (first,)).action is Action.RESTART


def test_what_lies_outside_is_waited_for_also_when_it_looks_the_same() -> None:
    first = attempt(Cause.TPU_DEVICE_BUSY_IN_USE, 0, steps=0)
    decision = decide(attempt(Cause.TPU_DEVICE_BUSY_IN_USE, 1, steps=0), (first,), chance=0.0)
    assert (decision.action, decision.wait_s) == (Action.RESTART, 1.0)


def test_the_budget_is_used_up_without_progress_and_filled_again_by_it() -> None:
    idle = [attempt(Cause.WORKER_PARAMETER_SERVER_LOST, n, steps=10 - n) for n in range(3)]
    decisions = [decide(idle[n], tuple(idle[:n]), Settings(max_attempts=3), chance=0.0) for n in range(3)]
    assert [each.action for each in decisions] == [Action.RESTART] * 2 + [Action.END]
    assert [(each.wait_s, each.attempts_left) for each in decisions[:2]] == [(0.0, 2), (1.0, 1)]
    assert "3 attempts in a row made no progress" in decisions[2].reason
    further = attempt(Cause.WORKER_PARAMETER_SERVER_LOST, 3, steps=14)
    again = decide(further, tuple(idle[:2]), Settings(max_attempts=3))
    assert (again.action, again.attempts_left, again.wait_s) == (Action.RESTART, 2, 0.0)


def test_a_step_or_two_more_are_no_progress() -> None:
    assert budget_used([attempt(number=n, steps=30 + n) for n in range(3)]) == 3
    assert budget_used([attempt(number=n, shown_step=30 + n, shown_every=1) for n in range(3)]) == 3
    assert budget_used([attempt(number=n, shown_step=40 + 20 * n, shown_every=20) for n in range(2)]) == 2
    assert budget_used([attempt(number=n, shown_step=40 + 2 * n, shown_every=1) for n in range(3)]) == 1, "it adds up"


def test_progress_is_told_by_steps_shown_numbers_and_checkpoints() -> None:
    first = attempt(number=0, steps=100, shown_step=100)
    assert budget_used((first, attempt(number=1, steps=5, shown_step=105))) == 1
    assert (
        budget_used((first, attempt(number=1, steps=5, shown_step=95), attempt(number=2, steps=5, shown_step=95))) == 3
    )
    first = attempt(number=0, steps=100)
    assert budget_used((first, attempt(number=1, steps=60, saved=True, resumed=True), attempt(number=2, steps=1))) == 2
    assert budget_used((first, attempt(number=1, steps=60, saved=True), attempt(number=2, steps=1))) == 3
    assert budget_used((attempt(number=0), attempt(number=1), attempt(number=2))) == 3


def test_one_attempt_means_no_restart() -> None:
    assert (
        decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, steps=3), settings=Settings(max_attempts=1)).action is Action.END
    )


def test_a_proven_hang_restarts_and_a_suspected_one_waits_first() -> None:
    hang = Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK
    assert decide(attempt(hang, happened=Happened.STOPPED, code=None, stopped_s=6.0)).action is Action.RESTART
    waits = decide(attempt(None, happened=Happened.SUSPECTED, code=None, stopped_s=20.0, usual_s=1.0))
    assert (waits.action, waits.wait_s) == (Action.WAIT, 580.0)
    assert "wait 10 min" in waits.words and "rank 1 may be hanging" in waits.words
    slow = decide(attempt(None, happened=Happened.SUSPECTED, code=None, stopped_s=20.0, usual_s=60.0))
    assert slow.wait_s == 2980.0
    asked = decide(
        attempt(None, happened=Happened.SUSPECTED, code=None, stopped_s=20.0), settings=Settings(suspected_wait_s=30.0)
    )
    assert asked.wait_s == 10.0
    assert decide(attempt(None, happened=Happened.SUSPECTED, code=None, stopped_s=601.0)).action is Action.RESTART


def test_a_hang_that_the_program_is_built_for_is_not_restarted() -> None:
    assert (
        decide(attempt(Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, happened=Happened.STOPPED, code=None)).action is Action.END
    )


@pytest.mark.parametrize(
    ("code", "action"),
    [(2, Action.END), (126, Action.END), (127, Action.END), (1, Action.RESTART), (77, Action.RESTART)],
)
def test_exit_codes_that_speak_for_themselves(code: int, action: Action) -> None:
    assert decide(attempt(None, code=code)).action is action
    assert decide(attempt(None, code=code, steps=5)).action is Action.RESTART


def test_the_end_of_a_run_is_no_failure() -> None:
    assert decide(attempt(None, happened=Happened.ENDED_WELL, code=0)).action is Action.FINISH
    assert decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT, happened=Happened.INTERRUPTED)).action is Action.END


def test_a_command_of_the_user_ends_where_it_is_established_that_no_rank_can_go_on() -> None:
    settings = Settings(restarts=False)
    differ = attempt(Cause.SYNC_COLLECTIVE_MISMATCH, happened=Happened.STOPPED, code=None)
    assert decide(differ, settings=settings).action is Action.END
    supported = report(Cause.SYNC_COLLECTIVE_MISMATCH, confidence=Confidence.SUPPORTED)
    doubtful = replace(differ, report=supported)
    assert decide(doubtful, settings=settings).action is Action.WAIT


def test_under_a_launcher_of_the_user_nothing_else_is_restarted_or_ended() -> None:
    settings = Settings(restarts=False)
    assert decide(attempt(Cause.FRAMEWORK_BUG_SEGFAULT), settings=settings).action is Action.END
    hangs = decide(
        attempt(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, happened=Happened.STOPPED, code=None), settings=settings
    )
    assert (
        hangs.action is Action.WAIT
        and "only with --max-attempts" in hangs.reason
        and "it is left running" in hangs.reason
    )


def test_a_command_of_the_user_that_was_not_let_load_a_bad_checkpoint_starts_again_from_the_older_one() -> None:
    older = Older(damaged=(Path("c/m-2.pt"),), place=Path("c.aside"), instead="m-1.pt")
    aside = Remedy(name="aside m-2.pt", does="move it", older=older)
    settings = Settings(restarts=False)
    refused = attempt(Cause.CHECKPOINT_CORRUPT_OR_MISSING)
    (finding,) = refused.report.findings
    refused = replace(refused, report=replace(refused.report, findings=(replace(finding, rule="CKP004"),)))
    again = decide(refused, settings=settings, offered=(aside, RAISE))
    assert (again.action, again.remedies) == (Action.RESTART, (aside,))
    assert decide(refused, settings=settings).action is Action.END, "there is no older one"
    off = replace(settings, remedy=RemedyMode.OFF)
    assert decide(refused, settings=off, offered=(aside,)).action is Action.END
    by_itself = attempt(Cause.CHECKPOINT_CORRUPT_OR_MISSING)
    assert decide(by_itself, settings=settings, offered=(aside,)).action is Action.END, "the framework refused it"


@pytest.mark.parametrize(
    ("mode", "applied", "asked", "action"),
    [
        (RemedyMode.OFF, [], [], Action.END),
        (RemedyMode.SAFE, [RAISE], [], Action.RESTART),
        (RemedyMode.ASK, [RAISE], [SMALLER], Action.RESTART),
        (RemedyMode.ALL, [RAISE, SMALLER], [], Action.RESTART),
    ],
)
def test_remedies_are_taken_as_asked_for(
    mode: RemedyMode, applied: list[Remedy], asked: list[Remedy], action: Action
) -> None:
    now = attempt(Cause.RESOURCE_FD_OR_PROCESS_LIMIT, steps=4)
    decision = decide(now, settings=Settings(remedy=mode), offered=(RAISE, SMALLER, NO_IB))
    assert (list(decision.remedies), list(decision.ask), decision.action) == (applied, asked, action)
    assert decision.wait_s == 0.0, "the cause is fixed first"
    assert NO_IB.does in {each.do for each in decision.advice}  # whatever was asked for


def test_a_remedy_that_stood_already_is_not_tried_again() -> None:
    now = attempt(Cause.RESOURCE_FD_OR_PROCESS_LIMIT, steps=4, remedies=(RAISE.name,))
    assert decide(now, offered=(RAISE,)).action is Action.END


def test_a_yes_in_the_terminal_turns_the_end_into_a_restart() -> None:
    now = attempt(Cause.RESOURCE_TPU_HBM_OOM, steps=0)
    decision = decide(now, settings=Settings(remedy=RemedyMode.ASK), offered=(SMALLER,))
    assert (decision.action, decision.ask) == (Action.END, (SMALLER,))
    assert "could help, if you agree: halve the batch" in decision.words
    yes = decision.accepted([SMALLER])
    assert (yes.action, yes.remedies, yes.ask) == (Action.RESTART, (SMALLER,), ())
    assert decision.accepted([]).action is Action.END


def test_waits_double_with_jitter_up_to_a_bound() -> None:
    assert [backoff_s(n, 0.0) for n in range(5)] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert backoff_s(3, 0.999) == pytest.approx(2.0, abs=0.01)
    assert backoff_s(1000, 0.0) == 300.0
    assert backoff_s(3, 1 / 3) == 3.33
    assert all(0.5 * backoff_s(4, 0.0) <= backoff_s(4, n / 10) <= backoff_s(4, 0.0) for n in range(10))


def test_progress_is_read_from_boxes_and_logs() -> None:
    def seen(fact: Fact, source: str = "rank0.log") -> Evidence[Fact]:
        return Evidence(fact=fact, origin=Origin(source=source))

    items = (
        seen(RankDoing(phase="compute", steps=41)),
        seen(RankDoing(phase="compute", steps=40)),
        *(seen(StepSeen(step=n)) for n in (100, 120, 140)),
        seen(StepSeen(step=141), "rank1.log"),
        replace(
            seen(PhaseSeen(phase=Phase.RESTORING)), quote="=> loading checkpoint 'out/model-3.pt' (epoch 3), lr=0.1"
        ),
    )
    found = progress_of(EvidenceSet(items=items))
    assert (found.steps, found.shown_step, found.shown_every, found.resumed, found.saved) == (41, 141, 20, True, None)
    assert found.restored_from == ("out/model-3.pt",)
    assert progress_of(EvidenceSet(items=())).steps is None


def test_a_decision_is_the_same_each_time() -> None:
    now, before = attempt(steps=3), (attempt(number=0, steps=3, code=9),)
    assert len({decide(now, before, chance=0.3) for _ in range(5)}) == 1
    assert isinstance(decide(now, before), Decision)


def test_no_cause_is_both_sure_and_outside() -> None:
    assert {how for how, _ in KNOWN.values()} == set(Returns)


@pytest.mark.parametrize(
    ("now", "repeats"),
    [
        (attempt(Cause.DATA_SHAPE_MISMATCH), True),
        (attempt(Cause.CONFIG_CLUSTER_SPEC), True),
        (attempt(Cause.RESOURCE_DISK_FULL), False),
        (attempt(Cause.NETWORK_WRONG_INTERFACE), False),
        (attempt(None, code=127), True),
    ],
)
def test_only_what_no_other_machine_could_change_is_said_to_repeat(now: Situation, repeats: bool) -> None:
    decision = decide(now)
    assert (decision.action, decision.repeats) == (Action.END, repeats)


def test_an_unknown_end_that_was_seen_twice_may_still_be_the_machines() -> None:
    now = attempt(None, 1, steps=5, code=None, signal="SIGKILL")
    decision = decide(now, (replace(now, number=0),))
    assert (decision.action, decision.repeats) == (Action.END, False)


@pytest.mark.parametrize(
    ("then", "now", "final"),
    [
        ({"lived_s": 59.0}, {"lived_s": 59.0}, True),
        ({"lived_s": 59.0}, {"lived_s": 61.0}, False),
        ({"lived_s": 900.0, "steps": 0}, {"lived_s": 900.0, "steps": 0}, True),
        ({"lived_s": 900.0}, {"lived_s": 900.0, "steps": 0}, False),
        ({"lived_s": 900.0, "steps": 0}, {"lived_s": 900.0}, False),
    ],
)
def test_two_that_took_no_step_failed_at_the_same_place_if_both_were_counted_or_ended_soon(
    then: dict[str, Any], now: dict[str, Any], final: bool
) -> None:
    first, second = attempt(None, 0, code=9, **then), attempt(None, 1, code=9, **now)
    assert is_final(second, [first], cut_short=False)[0] is final


def test_a_single_step_is_progress() -> None:
    none, one = attempt(steps=0), attempt(steps=1)
    assert budget_used([one, none]) == 2
    assert budget_used([none, one]) == 1
    assert budget_used([none, one, none]) == 2
    assert budget_used([none, none]) == 2
    printed = attempt(shown_step=1)
    assert budget_used([printed, none]) == 2 == budget_used([none, printed, none])


def test_what_is_printed_twice_is_no_gap_and_only_a_few_paths_are_kept() -> None:
    def seen(*facts: tuple[Fact, str]) -> EvidenceSet:
        return EvidenceSet(
            items=tuple(Evidence(fact=fact, origin=Origin(source="a.log"), quote=quote) for fact, quote in facts)
        )

    assert progress_of(seen(*((StepSeen(step=n), "") for n in (5, 5, 10, 15)))).shown_every == 5
    restored = [(PhaseSeen(phase=Phase.RESTORING), f"restored from ckpt/{n}.pt") for n in range(10)]
    found = progress_of(seen(*restored))
    assert found.restored_from == tuple(f"ckpt/{n}.pt" for n in range(9, 1, -1))
    assert (found.resumed, found.saved) == (True, None)
    assert progress_of(seen((PhaseSeen(phase=Phase.SAVING), ""))).saved is True
