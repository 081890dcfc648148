# SPDX-License-Identifier: Apache-2.0
"""UNK001: something failed and no rule knows why; who was first, and its last words."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import (
    ErrorSaid,
    ExceptionRaised,
    FatalSignal,
    NativeAbort,
    ProcessExited,
    TracebackCut,
)
from keepstep.core.facts.training import StreamEnded
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.first_rank import first_exits
from keepstep.core.rule import rule
from keepstep.core.wording import duration, shorten
from keepstep.rules.last_resort.last_errors import Said, last_errors, named_by_last_errors
from keepstep.rules.last_resort.naming import Named
from keepstep.rules.questions.exceptions import at_teardown, is_wrapper, short_type, user_frame

MOST_SHOWN = 4
SILENT_S = 30.0
"""Streams end within moments of each other when one failure ends all; this much apart tells who was first."""


@rule(
    id="UNK001",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ProcessExited, ExceptionRaised, FatalSignal, NativeAbort, StreamEnded, ErrorSaid, TracebackCut),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
)
def first_to_fail(seen: EvidenceSet) -> Iterator[Found]:
    """A process failed, and no known message says why: the first one to fail is named, and what its errors speak of.

    ## What it looks like
    A launcher reports a failed child, one rank's output simply stops, or a log ends in errors, with no message that
    is known.

    ## Why it happens
    The reason was not printed, was printed elsewhere (a rank's own log, the kernel's log, the
    scheduler), or is not known to this version.

    ## How we know
    The launcher names the first failure; else the first uncaught exception; else the rank whose output
    stopped clearly before that of the others; else the first of the errors that a log ends in; else a traceback of
    which the log does not show the end. The words of those
    errors are weighed by a table, cause by cause; where one cause is clearly ahead it is named, as a guess.

    ## What to do
    Look at the last words of that rank, and bring its own log, the kernel's log and the scheduler's record.

    ## When this is wrong
    Often: it is a guess of where to look, not of a cause.
    """
    errors = last_errors(seen)
    first = (_first(seen) if seen.broken else None) or _first_error(errors) or _cut(seen)
    if first is None:
        return
    what, evidence, who = first
    named = named_by_last_errors(seen, errors) or (None if seen.all(NativeAbort) else _struck(evidence.fact))
    shown = tuple(
        e for e in errors if named is not None and any(w in " ".join(e.fact.text.split()) for w in named.words)
    )
    yield Found(
        title=f"{what}; its last errors speak of {named.name}" if named else f"{what}; why is not in these logs",
        because=(
            f"no known cause explains it, but its last errors speak of {named.name}: "
            + ", ".join(f'"{words}"' for words in named.words)
            if named
            else "this is the earliest sign of failure that was found, and no known cause explains it"
        ),
        evidence=tuple(dict.fromkeys((evidence, *shown[:MOST_SHOWN], *_last_words(seen, who)))),
        ranks=(who,) if who is not None else None,
        confidence=Confidence.HYPOTHESIS,
        cause=named.cause if named else None,
        fixes=(
            Fix(
                do="add the complete logs of all ranks, and the kernel's log of that host",
                command="keepstep why logs/ dmesg.txt",
            ),
            Fix(do="have native crashes print their stack next time", command="export PYTHONFAULTHANDLER=1"),
        ),
    )


def _struck(fact: Fact) -> Named | None:
    """Native code that gave up, or was struck, without a word: whose it was is not known, that it was native is."""
    signal = fact.signal if isinstance(fact, (ProcessExited, FatalSignal)) else None
    if signal not in ("SIGABRT", "SIGSEGV", "SIGFPE"):
        return None
    return Named(Cause.FRAMEWORK_BUG_SEGFAULT, "native code that gave up", (signal,))


def _first(seen: EvidenceSet) -> tuple[str, Evidence[Fact], int | None] | None:
    for ended in first_exits(seen):
        if ended.fact.code or ended.fact.signal:
            return f"{_name(ended.who)} was the first to fail, {_how(ended.fact)}", ended, ended.who
    raised = [
        e
        for e in seen.all(ExceptionRaised)
        if not e.fact.logged and not seen.survived(e) and not is_wrapper(e.fact) and not at_teardown(e.fact)
    ]
    if raised:
        one = raised[0]
        frame = user_frame(one.fact)
        where = f" in {frame.function}" if frame else ""
        told = f"{_name(one.who)} raised {short_type(one.fact)}{where} first"
        return told, one, one.who
    silent = _first_silent(seen)
    if silent is not None:
        return silent
    for kind in (FatalSignal, NativeAbort):
        for struck in seen.all(kind):
            return f"{_name(struck.who)} was the first to be struck", struck, struck.who
    for ended in seen.all(ProcessExited):
        if ended.fact.code or ended.fact.signal:
            return f"{_name(ended.who)} failed, {_how(ended.fact)}", ended, ended.who
    others = [e for e in seen.all(ExceptionRaised) if not at_teardown(e.fact) and not seen.survived(e)]
    if others:
        return f"{_name(others[0].who)} raised {short_type(others[0].fact)}", others[0], others[0].who
    return None


def _first_error(errors: tuple[Said, ...]) -> tuple[str, Evidence[Fact], int | None] | None:
    """The first of the loudest errors that streams ended with."""
    if not errors:
        return None
    loudest = max(e.fact.loudness.value for e in errors)
    one = next(e for e in errors if e.fact.loudness.value == loudest)
    whose = f"the output of rank {one.who}" if one.who is not None else "the log"
    return f'{whose} ends in errors ("{shorten(one.quote, 60)}")', one, one.who


def _cut(seen: EvidenceSet) -> tuple[str, Evidence[Fact], int | None] | None:
    """A traceback that was begun: its last line, that names the exception, was not copied or never written."""
    one = next((e for e in seen.all(TracebackCut) if not seen.survived(e)), None)
    return (
        (f"{_name(one.who)} raised an exception that the log does not name", one, one.who) if one is not None else None
    )


def _first_silent(seen: EvidenceSet) -> tuple[str, Evidence[Fact], int | None] | None:
    """The rank whose output stopped clearly before that of all others."""
    ends = sorted(
        (e for e in seen.all(StreamEnded) if e.at is not None and e.who is not None), key=lambda e: e.at or 0.0
    )
    if len(ends) < 2 or ends[0].at is None or ends[1].at is None or ends[1].at - ends[0].at < SILENT_S:
        return None
    gap = duration(ends[1].at - ends[0].at)
    return f"{_name(ends[0].who)} fell silent {gap} before any other", ends[0], ends[0].who


def _last_words(seen: EvidenceSet, who: int | None) -> tuple[Evidence[Fact], ...]:
    if who is None:
        return ()
    return tuple(e for e in seen.all(StreamEnded) if e.who == who)[-1:]


def _name(who: int | None) -> str:
    return f"rank {who}" if who is not None else "a process"


def _how(fact: ProcessExited) -> str:
    if fact.signal:
        return f"by {fact.signal}"
    return shorten(f"with exit code {fact.code}", 40)
