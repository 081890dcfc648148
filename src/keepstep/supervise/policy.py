# SPDX-License-Identifier: Apache-2.0
"""What to do about a failed or stopped attempt: a pure function of the report and the history. Nothing here acts.

The supervisor prints ``Decision.words`` before it does anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from keepstep.core.cause import Cause
from keepstep.core.finding import Confidence, Finding, Fix, Safety, Severity
from keepstep.core.report import Report
from keepstep.core.wording import count, duration, shorten
from keepstep.supervise.backoff import wait_s
from keepstep.supervise.lost_work import Lost, lost_by_restart
from keepstep.supervise.remedy import Remedy, RemedyMode
from keepstep.supervise.standing import Returns, returns
from keepstep.supervise.waiting import LONG_S, cost_of, wait_for

SOON_S = 60.0
"""A program that has shown no step in this time, twice, failed in its start both times."""
MAX_LOST_WORK_S = 600.0
MOST_ADVICE = 3
NOT_RESTARTED = "keepstep restarts your own command only with --max-attempts"
USAGE, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127


class Happened(Enum):
    """How an attempt came to the point where something must be decided."""

    EXITED = "exited"
    """A rank ended badly (an exit code that is not 0, or a signal)."""
    RAISED = "raised"
    """A rank raised an exception that nobody catches, and has not exited: something keeps it on its way out."""
    STARTED_OVER = "started over"
    """The script began at its first step again, though an earlier attempt had saved checkpoints."""
    STOPPED = "stopped"
    """No rank gets on, and the stacks prove it."""
    SUSPECTED = "suspected"
    """No rank gets on, but nothing proves that it never will."""
    INTERRUPTED = "interrupted"
    """The user or the scheduler told the supervisor to end."""
    ENDED_WELL = "ended well"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is known of one attempt when it is decided upon. Unknown parts are None.

    ``steps`` to ``resumed`` are what :func:`keepstep.supervise.progress.progress_of` finds.
    """

    number: int
    happened: Happened
    report: Report
    first_rank: int | None = None
    """The rank that failed or stopped first."""
    code: int | None = None
    """Its exit code (None when a signal ended it, or when it still lives)."""
    signal: str | None = None
    steps: int | None = None
    """Training steps that the rank which got furthest did in this attempt, by the guard; None without a guard."""
    shown_step: int | None = None
    """The last step number that the training itself printed."""
    shown_every: int | None = None
    """How many steps lie between two printed numbers."""
    saved: bool | None = None
    """A checkpoint was saved in this attempt."""
    resumed: bool | None = None
    """It began by restoring a checkpoint."""
    restored_from: tuple[str, ...] = ()
    """What it named when it did."""
    lived_s: float = 0.0
    stopped_s: float | None = None
    """How long nothing has moved (STOPPED, SUSPECTED)."""
    kind: str | None = None
    """In which kind of silence (:class:`keepstep.supervise.stopped.Suspicion`)."""
    idle_s: float | None = None
    """How long those that the others wait for have shown no sign of work."""
    place: str | None = None
    """The line of the script at which the awaited rank stands."""
    start_s: float | None = None
    """How long a start takes, up to the first step, as measured."""
    work_s: float | None = None
    """How long it has trained in this attempt."""
    unsaved_s: float | None = None
    """... and since its last checkpoint."""
    saved_step: int | None = None
    usual_s: float | None = None
    """The usual time of a step."""
    remedies: tuple[str, ...] = ()
    """Names of the remedies that were in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for."""

    max_attempts: int = 4
    """Attempts without progress in between; progress fills the budget again."""
    remedy: RemedyMode = RemedyMode.SAFE
    suspected_wait_s: float | None = None
    """How long a hang that is only suspected may go on; None: by the usual step."""
    max_lost_work_s: float | None = MAX_LOST_WORK_S
    """No restart by itself where more work than this would be lost; None: whatever it loses."""
    restarts: bool = True
    """False for the user's own command: what comes back is theirs to say (a launcher restarts by itself)."""


class Action(Enum):
    FINISH = "finish"
    """All is well."""
    END = "end"
    """End the run with the first failing rank's status."""
    RESTART = "restart"
    """End what is left of the attempt, wait ``wait_s``, start the next one."""
    WAIT = "wait"
    """Tell, do nothing, and ask again after ``wait_s`` if it is still so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    action: Action
    reason: str
    """In words, without a full stop at the end."""
    wait_s: float = 0.0
    remedies: tuple[Remedy, ...] = ()
    """To be applied to the next attempt (those that stand already are not repeated)."""
    ask: tuple[Remedy, ...] = ()
    """To be asked for in the terminal (only with ``--remedy ask``); :meth:`accepted` tells what follows from a yes."""
    advice: tuple[Fix, ...] = ()
    attempts_left: int = 0
    warning: str | None = None
    """What a restart may do to the work so far."""
    waits_for: str = ""
    """Of a wait: what kind it is. The same kind again is no news."""

    @property
    def words(self) -> str:
        """What is printed before it is done: a line or a few."""
        if self.action is Action.RESTART:
            head = f"restart {f'in {duration(self.wait_s)}' if self.wait_s else 'now'}"
            tail = f" ({count(self.attempts_left, 'attempt')} left without progress)"
        else:
            head = {Action.END: "end the run", Action.WAIT: f"wait {duration(self.wait_s)}", Action.FINISH: "finished"}[
                self.action
            ]
            tail = ""
        lines = [f"decision: {head}: {self.reason}{tail}"]
        lines += [f"  note: {self.warning}"] if self.warning else []
        lines += [f"  remedy: {each.does}" for each in self.remedies]
        lines += [f"  could help, if you want it: {each.does}" for each in self.ask]
        lines += [f"  advice: {each.do}" + (f"  ({each.command})" if each.command else "") for each in self.advice]
        return "\n".join(lines)

    def accepted(self, remedies: Sequence[Remedy]) -> Decision:
        """The decision after the user said yes to some of ``ask``."""
        if not remedies:
            return replace(self, ask=())
        taken = (*self.remedies, *remedies)
        action = Action.RESTART if self.attempts_left > 0 else self.action
        return replace(
            self,
            action=action,
            remedies=taken,
            ask=(),
            reason=f"{self.reason}; with what you agreed to, it is worth another attempt",
        )


def decide(
    now: Attempt,
    before: tuple[Attempt, ...] = (),
    settings: Settings | None = None,
    *,
    offered: tuple[Remedy, ...] = (),
    chance: float = 0.5,
) -> Decision:
    """What to do now.

    ``before``: the earlier attempts of this run, oldest first. ``offered``: what :func:`keepstep.supervise.remedy.offered`
    finds for the report. ``chance``: a random number in [0, 1) for the jitter, given from outside so that this stays pure.
    """
    settings = settings or Settings()
    if now.happened is Happened.ENDED_WELL:
        return Decision(action=Action.FINISH, reason="every rank ended well")
    if now.happened is Happened.INTERRUPTED:
        return Decision(action=Action.END, reason="the run was told to end")
    cause = root_of(now.report)
    if not settings.restarts:
        return _leave_it(now, cause)
    attempts = (*before, now)
    used = budget_used(attempts)
    left = settings.max_attempts - used
    if now.happened is Happened.SUSPECTED and not _is_settled(cause):
        wait = wait_for(now, before, asked_s=settings.suspected_wait_s, left=left, who=_who(now))
        if wait is not None:
            return Decision(action=Action.WAIT, reason=wait.reason, wait_s=wait.seconds, waits_for=wait.kind)
    if now.happened is Happened.STARTED_OVER:
        return _started_over(settings)
    apply, ask, declined = _sorted(offered, settings.remedy, now.remedies)
    advice = _advice(cause, declined)
    what = _what(now, cause)
    final, why = _is_final(now, before, cause, cut_short=settings.suspected_wait_s is None)
    if final and not apply:
        return Decision(action=Action.END, reason=f"{what}: {why}", ask=ask, advice=advice, attempts_left=max(left, 0))
    if left <= 0:
        spent = f"{count(used, 'attempt')} without progress in between {'was' if used == 1 else 'were'} all that may be"
        return Decision(action=Action.END, reason=f"{what}; {spent}", advice=advice)
    lost = lost_by_restart(now, before)
    if lost.forbids(settings.max_lost_work_s, hangs=now.happened in (Happened.STOPPED, Happened.SUSPECTED)):
        return _left_to_you(now, what, lost, settings)
    if final:
        why = "what caused it is changed first"
    advice = _advice(None if apply else cause, declined)[: 1 + len(declined)]  # it goes on by itself: few words
    return Decision(
        action=Action.RESTART,
        reason=f"{what}: {why}",
        wait_s=0.0 if final else wait_s(_restarts_in_vain(attempts), chance),
        remedies=apply,
        ask=ask,
        advice=advice,
        attempts_left=left,
        warning=lost.words,
    )


def _left_to_you(now: Attempt, what: str, lost: Lost, settings: Settings) -> Decision:
    assert settings.max_lost_work_s is not None
    does = lost.words or "a restart begins at the first step"
    limit = f"more than {duration(settings.max_lost_work_s)} of work would be lost (--max-lost-work)"
    if now.happened is Happened.SUSPECTED:
        reason = f"it is not proven that {_who(now)} hangs; {does}; {limit}, so it is not restarted"
        return Decision(action=Action.WAIT, reason=reason, wait_s=LONG_S, waits_for="lost work")
    return Decision(action=Action.END, reason=f"{what}; {does}; {limit}, so it is not restarted")


def _started_over(settings: Settings) -> Decision:
    limit = duration(settings.max_lost_work_s or 0.0)
    return Decision(
        action=Action.END,
        reason="the script began at its first step again though an earlier attempt had saved checkpoints; "
        f"it is ended before it overwrites them (more than {limit} of work: --max-lost-work)",
        advice=(Fix(do="tell the script to resume, then start it again"),),
    )


def _is_settled(cause: Finding | None) -> bool:
    """Whether the report proves what stopped the run, though the stacks alone would not."""
    return (
        cause is not None
        and cause.cause is Cause.SYNC_COLLECTIVE_MISMATCH
        and cause.confidence is Confidence.ESTABLISHED
    )


def root_of(report: Report) -> Finding | None:
    """The finding to be decided upon: the first that can have ended a run."""
    fatal = (
        each
        for each in report.findings
        if each.severity is Severity.FATAL and returns(each, None)[0] is not Returns.NOT_FATAL
    )
    return next(fatal, None)


def budget_used(attempts: Sequence[Attempt]) -> int:
    """How many attempts in a row, up to the last one, got no further than those before them; at least 1."""
    return max(_idle(attempts), 1)


def _restarts_in_vain(attempts: Sequence[Attempt]) -> int:
    """How many restarts there were since the last progress."""
    idle = _idle(attempts)
    return idle - 1 if idle == len(attempts) else idle


def _idle(attempts: Sequence[Attempt]) -> int:
    idle = 0
    for place in range(len(attempts) - 1, -1, -1):
        if _got_further(attempts[place], attempts[:place]):
            break
        idle += 1
    return idle


def _got_further(now: Attempt, before: Sequence[Attempt]) -> bool:
    """Whether an attempt reached what no earlier one had."""
    if now.shown_step is not None:
        return now.shown_step > max((each.shown_step or 0 for each in before), default=0)
    if now.resumed and now.saved:
        return True
    if now.steps is not None:
        return now.steps > max((each.steps or 0 for each in before), default=0)
    return False


def _is_final(now: Attempt, before: Sequence[Attempt], cause: Finding | None, *, cut_short: bool) -> tuple[bool, str]:
    """Whether another attempt would end the same way, and why one thinks so.

    ``cut_short``: a hang that is only suspected was not waited for until it was sure, so that twice the same proves nothing.
    """
    if cause is None:
        if now.happened is Happened.EXITED and not now.steps:
            if now.code == USAGE and not now.shown_step:
                return True, "exit code 2 tells that it was called wrongly"
            if now.code in (NOT_EXECUTABLE, NOT_FOUND):
                return True, "the command could not be run"
        how, why = Returns.PERHAPS, "its cause is not known and may have passed"
    else:
        how, why = returns(cause, now.steps)
    if how is Returns.SURELY:
        return True, why
    same = [each for each in before if _same_cause(each, now, cause) and _same_place(each, now)]
    if now.happened is Happened.SUSPECTED and cut_short:
        cost, idle = cost_of(now), duration(now.idle_s if now.idle_s is not None else now.stopped_s or 0.0)
        return (
            False,
            f"{cost.words}, and it has been idle for {idle}" if cost is not None else f"it has been idle for {idle}",
        )
    if same and not (how is Returns.UNTIL_IT_IS_OVER and not now.steps):
        return (
            True,
            f"attempt {same[-1].number} ended in the same way at the same place ({_place(now)}), so a third would too",
        )
    return False, why


def _same_cause(then: Attempt, now: Attempt, cause: Finding | None) -> bool:
    earlier = root_of(then.report)
    if earlier is None or cause is None:
        ended = (then.code, then.signal, then.happened) == (now.code, now.signal, now.happened)
        return earlier is cause and ended and then.first_rank == now.first_rank
    return earlier.cause is cause.cause


def _same_place(then: Attempt, now: Attempt) -> bool:
    """Whether both came equally far: by every printed step, else by the guard's count; else both ended soon, without a step."""
    if then.shown_every == 1 and now.shown_every == 1:
        return then.shown_step == now.shown_step
    if not any((then.steps, now.steps, then.shown_step, now.shown_step)):
        return (then.steps is not None and now.steps is not None) or max(then.lived_s, now.lived_s) < SOON_S
    return then.steps is not None and then.steps == now.steps and then.shown_step == now.shown_step


def _place(now: Attempt) -> str:
    if now.shown_every == 1 and now.shown_step is not None:
        return f"step {now.shown_step}"
    return f"after {count(now.steps, 'step')}" if now.steps else "before the first step"


def _leave_it(now: Attempt, cause: Finding | None) -> Decision:
    """The user's own command, without --max-attempts."""
    what = _what(now, cause)
    if now.happened is Happened.EXITED:
        return Decision(action=Action.END, reason=f"{what}; {NOT_RESTARTED}", advice=_advice(cause, ()))
    return Decision(
        action=Action.WAIT,
        reason=f"{what}; nothing is ended, because {NOT_RESTARTED}",
        wait_s=LONG_S,
        advice=_advice(cause, ()),
        waits_for=now.happened.value,
    )


def _sorted(
    offered: Sequence[Remedy], mode: RemedyMode, standing: Sequence[str]
) -> tuple[tuple[Remedy, ...], tuple[Remedy, ...], tuple[Remedy, ...]]:
    """What to apply, what to ask for, and what remains advice."""
    fresh = [each for each in offered if each.name not in standing]
    tried = [each for each in fresh if not each.advice_only]
    if mode is RemedyMode.OFF:
        return (), (), tuple(fresh)
    if mode is RemedyMode.ALL:
        return tuple(tried), (), tuple(each for each in fresh if each.advice_only)
    safe = tuple(each for each in tried if each.safety is Safety.SAFE)
    rest = tuple(each for each in tried if each.safety is not Safety.SAFE)
    if mode is RemedyMode.ASK:
        return safe, rest, tuple(each for each in fresh if each.advice_only)
    return safe, (), tuple(each for each in fresh if each not in safe)


def _advice(cause: Finding | None, declined: Sequence[Remedy]) -> tuple[Fix, ...]:
    told = [Fix(do=each.does, command=each.command, safety=each.safety) for each in declined]
    known = {each.do for each in told}
    told += [fix for fix in (cause.fixes if cause is not None else ()) if fix.do not in known]
    return tuple(told[:MOST_ADVICE])


def _what(now: Attempt, cause: Finding | None) -> str:
    """What happened, in a few words."""
    if cause is not None:
        return shorten(cause.title, 160)
    if now.happened is Happened.RAISED:
        return f"{_who(now)} failed and has not exited"
    if now.happened is not Happened.EXITED:
        return f"{_who(now)} hangs"
    how = f"was ended by {now.signal}" if now.signal else f"ended with status {now.code}"
    return f"{_who(now)} {how}"


def _who(now: Attempt) -> str:
    return f"rank {now.first_rank}" if now.first_rank is not None else "the run"
