# SPDX-License-Identifier: Apache-2.0
"""UNK001: something failed and no rule knows why; which rank was first, and what it printed last."""

from __future__ import annotations

from keepstep.model.facts import (
    ErrorSaid,
    ExceptionRaised,
    Fact,
    FatalSignal,
    NativeAbort,
    ProcessExited,
    StreamEnded,
    TracebackCut,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    duration,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import at_teardown, is_wrapper, short_type, user_frame
from keepstep.rules.asking.left_by_itself import SIGNALS, last_words
from keepstep.rules.last_resort.last_errors import Said, last_errors, named_by_last_errors
from keepstep.rules.last_resort.naming import Named
from keepstep.story.first_rank import first_exits

MOST_SHOWN = 4
SILENT_S = 30.0
"""When one failure ends all ranks, their output stops within moments; a gap this long shows which was first."""


@rule(
    id="UNK001",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ProcessExited, ExceptionRaised, FatalSignal, NativeAbort, StreamEnded, ErrorSaid, TracebackCut),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
)
def first_to_fail(seen: EvidenceSet) -> Findings:
    """A process failed and no known message says why; the first one to fail is named, with what its errors suggest.

    ## What it looks like
    A launcher reports a failed child, one rank's output simply stops, or a log ends in errors, and no signature
    matches any message.

    ## Why it happens
    The reason was not printed, was printed elsewhere (a rank's own log, the kernel log, the scheduler), or is
    unknown to this version.

    ## How we know
    The first of these that exists: the failure that the launcher names as the first; the first uncaught exception; the
    rank whose output stopped clearly before all others; the first of the errors that a log ends in; a traceback whose
    end is missing from the log. The words of those errors are weighed, cause by cause. Where one cause is clearly
    ahead, it is named as a hypothesis.

    ## What to do
    Read the last lines of that rank, and add its own log, the kernel log and the scheduler's records.

    ## When this is wrong
    Often. It says where to look, not what the cause is.
    """
    errors = last_errors(seen)
    first = (_first(seen) if seen.broken else None) or _first_error(errors) or _cut(seen)
    if first is None:
        return
    what, evidence, who = first
    named = named_by_last_errors(seen, errors) or (None if seen.all(NativeAbort) else _crashed(evidence.fact))
    shown = tuple(
        e for e in errors if named is not None and any(w in " ".join(e.fact.text.split()) for w in named.words)
    )
    said = last_words(seen, who) if named is None and _is_own_exit(evidence.fact) else None
    why = f"its last words: {shorten(said[1], 80)}" if said else "these logs do not say why"
    yield Found(
        title=f"{what}; its last errors suggest {named.name}" if named else f"{what}; {why}",
        because=(
            f"no known cause explains it; the wording of its last errors ({named.quoted}) suggests {named.name}"
            if named
            else "this is the earliest sign of failure, and no known cause explains it"
        ),
        evidence=tuple(dict.fromkeys((evidence, *shown[:MOST_SHOWN], *_last_words(seen, who)))),
        ranks=(who,) if who is not None else None,
        confidence=Confidence.HYPOTHESIS,
        cause=named.cause if named else None,
        fixes=(
            Fix(
                do="add the complete logs of all ranks, and the kernel log of that host",
                command="keepstep why logs/ dmesg.txt",
            ),
            Fix(do="make native crashes print their stack next time", command="export PYTHONFAULTHANDLER=1"),
        ),
    )


def _is_own_exit(fact: Fact) -> bool:
    """Whether the process ended itself: Python prints the text of a SystemExit, and no traceback."""
    return isinstance(fact, ProcessExited) and fact.signal is None and 0 < (fact.code or 0) < SIGNALS


def _crashed(fact: Fact) -> Named | None:
    """Native code that aborted or crashed without a message: it was native code, but not known whose."""
    signal = fact.signal if isinstance(fact, (ProcessExited, FatalSignal)) else None
    if signal not in ("SIGABRT", "SIGSEGV", "SIGFPE"):
        return None
    return Named(Cause.FRAMEWORK_BUG_SEGFAULT, "a crash in native code", (signal,))


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
        return f"{_name(one.who)} was the first to raise ({short_type(one.fact)}{where})", one, one.who
    silent = _first_silent(seen)
    if silent is not None:
        return silent
    for kind in (FatalSignal, NativeAbort):
        for crashed in seen.all(kind):
            return f"{_name(crashed.who)} was the first to crash", crashed, crashed.who
    for ended in seen.all(ProcessExited):
        if ended.fact.code or ended.fact.signal:
            return f"{_name(ended.who)} failed, {_how(ended.fact)}", ended, ended.who
    others = [e for e in seen.all(ExceptionRaised) if not at_teardown(e.fact) and not seen.survived(e)]
    if others:
        return f"{_name(others[0].who)} raised {short_type(others[0].fact)}", others[0], others[0].who
    return None


def _first_error(errors: tuple[Said, ...]) -> tuple[str, Evidence[Fact], int | None] | None:
    """The first of the most severe errors near the end of the logs."""
    if not errors:
        return None
    loudest = max(e.fact.loudness.value for e in errors)
    one = next(e for e in errors if e.fact.loudness.value == loudest)
    whose = f"the output of rank {one.who}" if one.who is not None else "the log"
    return f'{whose} ends in errors ("{shorten(one.quote, 60)}")', one, one.who


def _cut(seen: EvidenceSet) -> tuple[str, Evidence[Fact], int | None] | None:
    """A traceback whose last line, which names the exception, was never written or not copied."""
    one = next((e for e in seen.all(TracebackCut) if not seen.survived(e)), None)
    return (
        (f"{_name(one.who)} raised an exception that the log does not name", one, one.who) if one is not None else None
    )


def _first_silent(seen: EvidenceSet) -> tuple[str, Evidence[Fact], int | None] | None:
    """The rank whose output stopped clearly before everyone else's."""
    ends = sorted(
        (e for e in seen.all(StreamEnded) if e.at is not None and e.who is not None), key=lambda e: e.at or 0.0
    )
    if len(ends) < 2 or ends[0].at is None or ends[1].at is None:
        return None
    if ends[1].at - ends[0].at < SILENT_S + sum(e.within_s for e in ends[:2]):
        return None
    gap = duration(ends[1].at - ends[0].at)
    return f"{_name(ends[0].who)} went silent {gap} before any other rank", ends[0], ends[0].who


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
