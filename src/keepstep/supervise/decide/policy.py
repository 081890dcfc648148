# SPDX-License-Identifier: Apache-2.0
"""What to do about a failed or stopped attempt: a pure function of the report and the history. Nothing here acts.

The supervisor prints ``Decision.words`` before it does anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.base.wording import count, duration
from keepstep.model.cause import Cause
from keepstep.model.finding import Confidence, Finding, Fix, Safety
from keepstep.supervise.decide.attempt_history import NEVER_RAN, budget_used, is_final, restarts_in_vain
from keepstep.supervise.decide.cause_recurs import EVERYWHERE
from keepstep.supervise.decide.decision import Action, Decision, Settings
from keepstep.supervise.decide.hang_patience import ASK_AGAIN_S, LONG_S, HangWait, backoff_s, is_at_work, wait_for
from keepstep.supervise.decide.remedy import Remedy, RemedyMode
from keepstep.supervise.decide.situation import Happened, Situation

MOST_ADVICE = 3
DIFFER_S = 20.0
"""So long without progress, stacks in different collectives are proof, whatever phase the ranks are in."""
REFUSED = "CKP004"
"""The rule on checkpoints that are not what was saved: the guard does not let them be loaded."""
NOT_RESTARTED = "keepstep restarts your own command only with --max-attempts"


def decide(
    now: Situation,
    before: tuple[Situation, ...] = (),
    settings: Settings | None = None,
    *,
    offered: tuple[Remedy, ...] = (),
    chance: float = 0.5,
) -> Decision:
    """What to do now.

    ``before``: the earlier attempts of this run, oldest first. ``offered``: what
    :func:`keepstep.supervise.decide.remedy.offered` finds for the report. ``chance``: a random number in [0, 1) for the
    jitter, passed in to keep this function pure.
    """
    settings = settings or Settings()
    if now.happened is Happened.ENDED_WELL:
        return Decision(action=Action.FINISH, reason="every rank finished")
    if now.happened is Happened.INTERRUPTED:
        return Decision(action=Action.END, reason="the run was asked to stop")
    if now.happened is Happened.GROWS:
        return Decision(action=Action.GROW, reason="a checkpoint was saved, and more nodes can take part")
    if now.happened is Happened.SHRINKS:
        return Decision(action=Action.SHRINK, reason="a limit was passed, and the run goes on with one rank fewer")
    cause, what = now.root, now.what
    attempts = (*before, now)
    if not settings.restarts:
        return _from_an_older_one(now, offered, settings, budget_used(attempts)) or _leave_it(now)
    used = budget_used(attempts)
    left = settings.max_attempts - used
    final, why = is_final(now, before, cut_short=settings.suspected_wait_s is None)
    if now.happened is Happened.SUSPECTED:
        if _differs(cause):
            wait = _until_settled(now)
        else:
            wait = wait_for(now, before, asked_s=settings.suspected_wait_s, left=left, who=now.who, final=final)
        if wait is not None:
            return Decision(action=Action.WAIT, reason=wait.reason, wait_s=wait.seconds, waits_for=wait.kind)
    if now.happened is Happened.STARTED_OVER:
        return _started_over(settings)
    apply, ask, declined = _sorted(offered, settings.remedy, now.remedies)
    advice = _advice(cause, declined)
    if final and not apply:
        return Decision(
            action=Action.END,
            reason=f"{what}: {why}",
            ask=ask,
            advice=advice,
            attempts_left=max(left, 0),
            repeats=cause.cause.family in EVERYWHERE if cause is not None else now.code in NEVER_RAN,
        )
    if left <= 0:
        spent = f"{count(used, 'attempt')} in a row made no progress, and --max-attempts allows no more"
        return Decision(action=Action.END, reason=f"{what}; {spent}", advice=advice)
    lost = lost_by_restart(now, before)
    if lost.forbids(settings.max_lost_work_s, hangs=now.happened in (Happened.STOPPED, Happened.SUSPECTED)):
        return _left_to_you(now, what, lost, settings)
    if final:
        why = "the cause is fixed first"
    advice = _advice(None if apply else cause, declined)[: 1 + len(declined)]  # it goes on by itself: keep it short
    return Decision(
        action=Action.RESTART,
        reason=f"{what}: {why}",
        wait_s=0.0 if final else backoff_s(restarts_in_vain(attempts), chance),
        remedies=apply,
        ask=ask,
        advice=advice,
        attempts_left=left,
        warning=lost.words,
    )


def _left_to_you(now: Situation, what: str, lost: LostWork, settings: Settings) -> Decision:
    assert settings.max_lost_work_s is not None
    does = lost.words or "a restart begins at the first step"
    limit = f"that would lose more than {duration(settings.max_lost_work_s)} of work (--max-lost-work)"
    if now.happened is Happened.SUSPECTED:
        reason = f"{now.unproven}; {does}; {limit}, so there is no restart"
        return Decision(action=Action.WAIT, reason=reason, wait_s=LONG_S, waits_for="lost work")
    return Decision(action=Action.END, reason=f"{what}; {does}; {limit}, so there is no restart")


def _started_over(settings: Settings) -> Decision:
    limit = duration(settings.max_lost_work_s or 0.0)
    return Decision(
        action=Action.END,
        reason="the script began at its first step again, though an earlier attempt had saved checkpoints; "
        f"it is stopped before it overwrites more than {limit} of work (--max-lost-work)",
        advice=(Fix(do="make the script load its checkpoint, then start it again"),),
        repeats=True,
    )


def _differs(cause: Finding | None) -> bool:
    """Whether ranks are in different collectives. None of these ends without all ranks, in a save as in a step."""
    return (
        cause is not None
        and cause.cause is Cause.SYNC_COLLECTIVE_MISMATCH
        and cause.confidence is not Confidence.HYPOTHESIS
    )


def _until_settled(now: Situation) -> HangWait | None:
    """How long to wait for ranks in different collectives: not at all, or a while if only stacks say so."""
    assert now.root is not None
    if now.root.confidence is Confidence.ESTABLISHED:
        return None
    if is_at_work(now):
        return HangWait(ASK_AGAIN_S, f"{now.who} is at work, so the run is not ended", "busy")
    rest = DIFFER_S - (now.stopped_s or 0.0)
    return HangWait(rest, f"{now.what}; if no rank moves by then, the run is ended", "differ") if rest > 0 else None


def _from_an_older_one(now: Situation, offered: tuple[Remedy, ...], settings: Settings, used: int) -> Decision | None:
    """The user's own command, which keepstep kept from loading a bad checkpoint: so keepstep starts it again, too."""
    apply, _, _ = _sorted(offered, settings.remedy, now.remedies)
    aside = tuple(each for each in apply if each.older is not None)
    left = settings.max_attempts - used
    if now.happened is not Happened.EXITED or not aside or left <= 0 or now.root is None or now.root.rule != REFUSED:
        return None
    reason = f"{now.what}: the cause is fixed first"
    return Decision(action=Action.RESTART, reason=reason, remedies=aside, attempts_left=left)


def _leave_it(now: Situation) -> Decision:
    """The user's own command, without --max-attempts: it is ended only if it has failed, or can never go on."""
    what, advice = now.what, _advice(now.root, ())
    if now.happened is Happened.EXITED:
        return Decision(action=Action.END, reason=f"{what}; {NOT_RESTARTED}", advice=advice)
    if _differs(now.root) and now.root is not None and now.root.confidence is Confidence.ESTABLISHED:
        return Decision(action=Action.END, reason=f"{what}: no rank can go on", advice=advice)
    return Decision(
        action=Action.WAIT,
        reason=f"{what}; it is left running: {NOT_RESTARTED}",
        wait_s=LONG_S,
        advice=advice,
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


# --- What a restart does to the work so far, by what was seen of checkpoints. Pure.

WORTH_A_WORD_S = 60.0
"""Losing less work than this is not worth mentioning."""


@dataclass(frozen=True, slots=True)
class LostWork:
    """What a restart does to the work so far."""

    words: str | None = None
    work_s: float = 0.0
    overwrites: bool = False
    """There are checkpoints, and this script was seen not to load them."""

    def forbids(self, most_s: float | None, *, hangs: bool) -> bool:
        """Whether it is too much to do unasked. What a crash has already lost, a restart does not lose."""
        return most_s is not None and self.work_s > most_s and (self.overwrites or hangs)


def lost_by_restart(now: Situation, before: Sequence[Situation]) -> LostWork:
    """By what was seen of checkpoints; nothing if no guard could see them."""
    work = now.work_s
    if work is None or now.saved is None or now.resumed or any(each.resumed for each in before):
        return LostWork()
    work = max([work, *(each.work_s or 0.0 for each in before)])
    if any(each.saved for each in before) and now.steps:
        words = (
            "this script was restarted beside its own checkpoints and loaded none: "
            "a restart begins at the first step and may overwrite them"
        )
        return LostWork(words, work, overwrites=True)
    if not now.saved:
        words = f"no checkpoint was saved: a restart begins at the first step and loses {duration(work)} of training"
        return LostWork(words if work > WORTH_A_WORD_S else None, work)
    if work <= WORTH_A_WORD_S:
        return LostWork()
    words = "it is unknown whether this script resumes: it saved checkpoints, but was not seen to load any"
    return LostWork(f"{words}; if it does not, the restart begins at the first step")
