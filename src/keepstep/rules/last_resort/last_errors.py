# SPDX-License-Identifier: Apache-2.0
"""The errors that streams ended with: which of them count, where no rule knows what they say."""

from __future__ import annotations

from keepstep.core.cause import Cause
from keepstep.core.evidence import TO_THE_END, Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import ErrorSaid, ExceptionRaised, FatalSignal, Loudness, NativeAbort, ProcessExited
from keepstep.core.facts.training import Phase, PhaseSeen, StepSeen
from keepstep.rules.last_resort.naming import Named, named_by, words_of, words_of_abort, words_said
from keepstep.rules.questions.exceptions import at_teardown, short_type

Said = Evidence[ErrorSaid]

FAR_BELOW = 20
"""An error has not ended a stream that has more lines after it than this."""
NEAR_BELOW = 4
LITTLE_ELSE = 0.3
"""The part of the last lines from which on a log is said to consist of errors."""
MOST_TEXTS = 40


def last_errors(seen: EvidenceSet) -> tuple[Said, ...]:
    """Errors near the end of their stream that nothing came after: no step, no end of the training.

    Where a run is known to have broken, all that its streams ended with count; else only those that are loud, or
    that are the very last words of a run that never trained. A run that finished has none.
    """
    if any(e.fact.phase is Phase.FINISHED for e in seen.all(PhaseSeen)) and not _ended_badly(seen):
        return ()
    said = [e for e in seen.all(ErrorSaid) if not _known_as_harmless(seen, e) and not seen.raised_around(e)]
    return tuple(e for e in said if not _went_on(seen, e) and (seen.broken or _counts(seen, e)))


def named_by_last_errors(seen: EvidenceSet, said: tuple[Said, ...]) -> Named | None:
    """The cause that the last errors, and exceptions that ended something, speak of together."""
    raised = [e for e in seen.all(ExceptionRaised) if not seen.survived(e) and not at_teardown(e.fact)]
    texts = [words_of(e.fact) for e in raised if short_type(e.fact) != "CalledProcessError"]
    texts += [words_of_abort(e.fact) for e in seen.all(NativeAbort)]
    texts += [words_said(e.fact) for e in said]
    named = named_by(texts[-MOST_TEXTS:])
    return None if named is not None and named.cause is Cause.PREEMPTION_SIGTERM and _failed_by_itself(seen) else named


def _failed_by_itself(seen: EvidenceSet) -> bool:
    """Whether a process gave a code of its own: launchers end the others then, and that is no order from outside."""
    return any(
        e.fact.code and e.fact.code not in (143, -15, 15) and e.fact.signal is None for e in seen.all(ProcessExited)
    )


def _ended_badly(seen: EvidenceSet) -> bool:
    """Whether a process was struck or told of its failure: an exception alone may be one of the clean-up."""
    struck = bool(seen.all(FatalSignal)) or bool(seen.all(NativeAbort))
    return struck or bool(seen.bad_exits)


def _counts(seen: EvidenceSet, said: Said) -> bool:
    """Whether an error may have ended a run of which nothing else shows that it broke."""
    trained = bool(seen.all(StepSeen))
    fact = said.fact
    if fact.loudness is Loudness.FATAL:
        return fact.below <= FAR_BELOW
    if fact.loudness is Loudness.ERROR:
        return fact.below <= NEAR_BELOW or (not trained and fact.share >= LITTLE_ELSE and fact.below <= FAR_BELOW)
    if fact.loudness is Loudness.WARNED:
        return False  # a healthy run's stream of errors may hold nothing but warnings
    return not trained and fact.share >= LITTLE_ELSE and fact.below <= 2 * NEAR_BELOW


def _went_on(seen: EvidenceSet, said: Said) -> bool:
    """Whether its source shows a step, or the end of the training, after it: of any writer, where none broke."""
    line = said.origin.line or 0
    if seen.survived(said):
        return True
    steps = seen.near(said, StepSeen, after=TO_THE_END) if seen.broken else seen.all(StepSeen)
    return any(e.origin.source == said.origin.source and (e.origin.line or 0) > line for e in steps)


def _known_as_harmless(seen: EvidenceSet, said: Said) -> bool:
    """Whether a table knows this very line as one that ends nothing."""
    here = seen.near(said, Fact)
    return any(getattr(e.fact, "fatal", True) is False or getattr(e.fact, "final", True) is False for e in here)
