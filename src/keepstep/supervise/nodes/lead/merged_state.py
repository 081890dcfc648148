# SPDX-License-Identifier: Apache-2.0
"""What each node knows about its ranks, and what that comes to for all of them together."""

from __future__ import annotations

import time
from collections.abc import Sequence

from keepstep.model.report import Report, Verdict
from keepstep.supervise.attempt import Attempt
from keepstep.supervise.attempt_context import Outcome
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.messages import Known
from keepstep.supervise.watch.hang_detector import Stop, Suspicion


def known(attempt: Attempt, outcome: Outcome | None) -> Known:
    """What this node knows about its ranks."""
    now = attempt.situation(outcome or Outcome(Happened.STOPPED), Report(verdict=Verdict.UNKNOWN), AttemptProgress())
    return Known(
        steps=now.steps,
        saved=now.saved,
        resumed=now.resumed,
        lived_s=now.lived_s,
        stopped_s=now.stopped_s,
        usual_s=now.usual_s,
        silence=now.kind,
        idle_s=now.idle_s,
        place=now.place,
        endured_s=now.endured_s,
        start_s=now.start_s,
        work_s=now.work_s,
        unsaved_s=now.unsaved_s,
        saved_step=now.saved_step,
        returning=attempt.is_returning,
    )


def stop_of(told: messages.Happened, known: Known) -> Stop:
    """The stop that a node reports, as the supervisor knows it from one machine."""
    at = time.monotonic()
    quiet = known.stopped_s if known.stopped_s is not None else told.quiet_s or 0.0
    suspicion = Suspicion(
        at=at, quiet_s=quiet, limit_s=quiet, kind=known.silence or "step", usual_s=known.usual_s, signs=(), held_up=()
    )
    return Stop(suspicion=suspicion, proven=told.proven, at=at)


def together(
    number: int,
    outcome: Outcome,
    report: Report,
    progress: AttemptProgress,
    nodes: Sequence[Known],
    awaited: Sequence[Known],
    *,
    steps: int,
) -> Situation:
    """What the policy decides upon. ``awaited``: the nodes whose ranks the others wait for."""
    exit_, stop = outcome.exit, outcome.stop
    named = report.root.ranks if stop is not None and report.root is not None else ()
    done = [each.steps for each in nodes if each.steps is not None]
    return Situation(
        number=number,
        happened=outcome.happened,
        report=report,
        first_rank=named[0] if named else outcome.rank,
        code=exit_.code if exit_ is not None else None,
        signal=exit_.signal if exit_ is not None else None,
        steps=max([*done, steps, progress.steps or 0]) or None,
        shown_step=progress.shown_step,
        shown_every=progress.shown_every,
        saved=progress.saved or any(each.saved for each in nodes) or None,
        resumed=progress.resumed or any(each.resumed for each in nodes) or None,
        restored_from=progress.restored_from,
        stopped_s=stop.quiet_s if stop is not None else None,
        usual_s=max((each.usual_s for each in nodes if each.usual_s is not None), default=None),
        kind=stop.suspicion.kind if stop is not None else None,
        idle_s=min((each.idle_s for each in awaited or nodes if each.idle_s is not None), default=None),
        place=next((each.place for each in awaited if each.place is not None), None),
        endured_s=max((each.endured_s for each in awaited if each.endured_s is not None), default=None),
        start_s=max((each.start_s for each in nodes if each.start_s is not None), default=None),
        work_s=max((each.work_s for each in nodes if each.work_s is not None), default=None),
        unsaved_s=min((each.unsaved_s for each in nodes if each.unsaved_s is not None), default=None),
        saved_step=max((each.saved_step for each in nodes if each.saved_step is not None), default=None),
    )
