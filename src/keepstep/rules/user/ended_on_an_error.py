# SPDX-License-Identifier: Apache-2.0
"""USR004: a rank's last word is an error, and it ended with status 0."""

from __future__ import annotations

from keepstep.model.facts import (
    ErrorSaid,
    Fact,
    Loudness,
    Phase,
    PhaseSeen,
    ProcessExited,
    RankEnded,
    StepSeen,
    StreamEnded,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    Standing,
    ranks,
    rule,
    shorten,
)
from keepstep.rules.asking.matched_messages import SYMPTOMS
from keepstep.story.rank_endings import ended_well, ends_of


@rule(
    id="USR004",
    cause=Cause.USER_CODE_EXCEPTION,
    needs=(ErrorSaid,),
    standing=Standing.EXCEPTION,
    confidence=Confidence.HYPOTHESIS,
)
def ended_on_an_error(seen: EvidenceSet) -> Findings:
    """A rank ended with status 0, but an error is the last it said: the program may have swallowed an exception.

    ## What it looks like
    `error: 'lr'` as the last line of a log, then exit code 0.

    ## Why it happens
    `except Exception as error: print("error:", error)` around the training: the program goes on to its end, and to
    launchers and schedulers the run looks finished.

    ## How we know
    The rank is known to have ended with status 0. Its last line is an error, and nowhere does it say that it finished.
    Or it made no step after the error, and other ranks made more.

    ## What to do
    Let the exception end the program, or exit with another status.

    ## When this is wrong
    The error was about something that the work does not need.
    """
    if not ended_well(seen) or any(e.fact.phase is Phase.FINISHED for e in seen.all(PhaseSeen)):
        return
    well = {who for who, e in seen.once(ends_of).well.items() if e.fact.goodbye}
    well |= {e.who for e in seen.all(ProcessExited) if e.fact.code == 0}
    said = [e for e in seen.all(ErrorSaid) if e.who is not None and e.who in well]
    said = [e for e in said if _is_last(seen, e) or _stopped_short(seen, e)]
    if not said:
        return
    blamed = tuple(sorted({e.who for e in said if e.who is not None}))
    each = " each" if len(blamed) > 1 else ""
    ended: tuple[Evidence[RankEnded], ...] = tuple(e for e in seen.all(RankEnded) if e.who in blamed)
    yield Found(
        title=f"{ranks(blamed)} ended with status 0{each} right after an error: {shorten(said[0].quote, 80)}",
        because="a program that catches its exception and only prints it looks finished to everyone who started it",
        evidence=(*said, *ended),
        ranks=blamed,
        severity=Severity.WARNING,
        fixes=(
            Fix(do="let the exception end the program, or exit with a status other than 0", code="sys.exit(1)"),
            Fix(do="print where it was raised", code="traceback.print_exc()"),
        ),
    )


def _stopped_short(seen: EvidenceSet, said: Evidence[ErrorSaid]) -> bool:
    """Whether this rank printed no step after the error, and another rank got further."""
    steps = [e for e in seen.all(StepSeen) if e.who is not None and e.fact.step is not None]
    own = [e for e in steps if e.who == said.who]
    if not own or any(e.origin.writer == said.origin.writer and _line(e) > _line(said) for e in own):
        return False
    return max(e.fact.step or 0 for e in own) < max((e.fact.step or 0 for e in steps if e.who != said.who), default=0)


def _line(each: Evidence[Fact]) -> int:
    return each.origin.line or 0


def _is_last(seen: EvidenceSet, said: Evidence[ErrorSaid]) -> bool:
    """Whether nothing but the rest of the same message follows, and the stream nowhere says that it has finished."""
    if said.fact.loudness.value < Loudness.ERROR.value or said.fact.below > 0 or seen.raised_around(said):
        return False
    if any(seen.near(said, kind) for kind in SYMPTOMS):  # others left first: on the way out that is usual
        return False
    ends = seen.near(said, StreamEnded, after=1)
    return bool(ends) and not any(e.fact.finished for e in ends)
