# SPDX-License-Identifier: Apache-2.0
"""What the policy is told of an attempt: the one place where what was seen becomes what is decided upon."""

from __future__ import annotations

import time
from collections.abc import Sequence

from keepstep.core.report import Report
from keepstep.supervise import policy
from keepstep.supervise.attempt import Attempt
from keepstep.supervise.progress import Progress
from keepstep.supervise.started import Outcome
from keepstep.supervise.stopped import Stop
from keepstep.supervise.waiting import IN_STEPS


def as_policy(
    attempt: Attempt, outcome: Outcome, report: Report, progress: Progress, *, remedies: tuple[str, ...] = ()
) -> policy.Attempt:
    """An attempt at the moment when something must be decided about it."""
    exit_, stop = outcome.exit, outcome.stop
    resumed, saved = attempt.checkpointed()
    back = attempt.coming_back
    named = report.root.ranks if stop is not None and report.root is not None else ()
    return policy.Attempt(
        number=attempt.number,
        happened=outcome.happened,
        report=report,
        first_rank=named[0] if named else outcome.rank,
        code=exit_.code if exit_ is not None else None,
        signal=exit_.signal if exit_ is not None else None,
        steps=max(attempt.steps, progress.steps) if progress.steps is not None else attempt.steps or None,
        shown_step=progress.shown_step,
        shown_every=progress.shown_every,
        saved=progress.saved or saved,
        resumed=progress.resumed or resumed,
        restored_from=progress.restored_from,
        lived_s=time.time() - attempt.began,
        stopped_s=stop.quiet_s if stop is not None else None,
        usual_s=attempt.usual_s,
        kind=_kind(stop, named) if stop is not None else None,
        idle_s=attempt.idle_s() if stop is not None else None,
        place=attempt.place if stop is not None else None,
        start_s=back.start_s(warm=attempt.has_spares()),
        work_s=back.work_s(),
        unsaved_s=back.unsaved_s(),
        saved_step=back.saved_step,
        remedies=remedies,
    )


def _kind(stop: Stop, named: Sequence[int]) -> str:
    """What kind of silence it is: that of the ranks for which the others wait. Those may be in a checkpoint that all must join."""
    awaited = [sign for sign in stop.suspicion.signs if sign.rank in named]
    in_step = bool(awaited) and all(sign.is_stepping and not sign.between for sign in awaited)
    return "step" if in_step and stop.suspicion.kind not in ("busy", *IN_STEPS) else stop.suspicion.kind
