# SPDX-License-Identifier: Apache-2.0
"""The errors near the end of the logs: which of them count when no rule recognises any."""

from __future__ import annotations

from keepstep.model.facts import (
    ErrorSaid,
    ExceptionRaised,
    Fact,
    FatalSignal,
    Loudness,
    NativeAbort,
    Phase,
    PhaseSeen,
    ProcessExited,
    StepSeen,
)
from keepstep.rules.api import TO_THE_END, Cause, Evidence, EvidenceSet
from keepstep.rules.asking.exceptions import at_teardown, short_type
from keepstep.rules.last_resort.naming import Named, named_by, words_of, words_of_abort, words_said

Said = Evidence[ErrorSaid]

FAR_BELOW = 20
"""An error followed by more lines than this did not end the stream."""
NEAR_BELOW = 4
LITTLE_ELSE = 0.3
"""If this share of the last lines are errors, the log consists of little else."""
MOST_TEXTS = 40


def last_errors(seen: EvidenceSet) -> tuple[Said, ...]:
    """Errors near the end of their stream with neither a step nor the end of training after them.

    If the run is known to have failed, all of them count. Otherwise only severe ones count, or those at the very end of
    a run that never trained. A run that finished has none.
    """
    if any(e.fact.phase is Phase.FINISHED for e in seen.all(PhaseSeen)) and not _ended_badly(seen):
        return ()
    said = [e for e in seen.all(ErrorSaid) if not _known_as_harmless(seen, e) and not seen.raised_around(e)]
    return tuple(e for e in said if not _went_on(seen, e) and (seen.broken or _counts(seen, e)))


def named_by_last_errors(seen: EvidenceSet, said: tuple[Said, ...]) -> Named | None:
    """The cause that the last errors and the fatal exceptions suggest together."""
    raised = [e for e in seen.all(ExceptionRaised) if not seen.survived(e) and not at_teardown(e.fact)]
    texts = [words_of(e.fact) for e in raised if short_type(e.fact) != "CalledProcessError"]
    texts += [words_of_abort(e.fact) for e in seen.all(NativeAbort)]
    texts += [words_said(e.fact) for e in said]
    named = named_by(texts[-MOST_TEXTS:])
    return None if named is not None and named.cause is Cause.PREEMPTION_SIGTERM and _failed_by_itself(seen) else named


def _failed_by_itself(seen: EvidenceSet) -> bool:
    """Whether a process exited with a code of its own: the launcher then ends the rest, so nobody preempted them."""
    return any(
        e.fact.code and e.fact.code not in (143, -15, 15) and e.fact.signal is None for e in seen.all(ProcessExited)
    )


def _ended_badly(seen: EvidenceSet) -> bool:
    """Whether a process crashed or exited with a failure: an exception alone may come from the clean-up."""
    return bool(seen.all(FatalSignal) or seen.all(NativeAbort) or seen.bad_exits)


def _counts(seen: EvidenceSet, said: Said) -> bool:
    """Whether an error may have ended a run that shows no other sign of failure."""
    trained = bool(seen.all(StepSeen))
    fact = said.fact
    if fact.loudness is Loudness.FATAL:
        return fact.below <= FAR_BELOW
    if fact.loudness is Loudness.ERROR:
        return fact.below <= NEAR_BELOW or (not trained and fact.share >= LITTLE_ELSE and fact.below <= FAR_BELOW)
    if fact.loudness is Loudness.WARNED:
        return False  # the stderr of a healthy run may consist of warnings
    return not trained and fact.share >= LITTLE_ELSE and fact.below <= 2 * NEAR_BELOW


def _went_on(seen: EvidenceSet, said: Said) -> bool:
    """Whether a step or the end of training follows in the same source; by any writer, if nothing failed."""
    line = said.origin.line or 0
    if seen.survived(said):
        return True
    steps = seen.near(said, StepSeen, after=TO_THE_END) if seen.broken else seen.all(StepSeen)
    return any(e.origin.source == said.origin.source and (e.origin.line or 0) > line for e in steps)


def _known_as_harmless(seen: EvidenceSet, said: Said) -> bool:
    """Whether a signature marks this very line as harmless."""
    here = seen.near(said, Fact)
    return any(getattr(e.fact, "fatal", True) is False or getattr(e.fact, "final", True) is False for e in here)
