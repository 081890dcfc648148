# SPDX-License-Identifier: Apache-2.0
"""USR001: the program raised an exception of its own."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised, ProcessExited, StepSeen
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    called,
    lazy_pattern,
    ranks,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import (
    Raised,
    is_of_a_framework,
    missing_module,
    ranks_told,
    short_type,
    user_frame,
)
from keepstep.rules.last_resort.naming import named_in
from keepstep.rules.last_resort.words import speaks_of, unexplained
from keepstep.story.rank_endings import ends_of

OF_THE_SYSTEM = frozenset(
    {
        *("OSError", "IOError", "FileNotFoundError", "FileExistsError", "PermissionError", "NotADirectoryError"),
        *("IsADirectoryError", "BlockingIOError", "InterruptedError", "ProcessLookupError", "ChildProcessError"),
        *("TimeoutError", "EOFError", "BrokenPipeError", "ConnectionError", "ConnectionResetError"),
        *("ConnectionRefusedError", "ConnectionAbortedError", "KeyboardInterrupt"),
    }
)
"""These depend on files, hosts and other processes: perhaps another rank should have written what was not found."""


@rule(
    id="USR001",
    cause=Cause.USER_CODE_EXCEPTION,
    needs=(ExceptionRaised,),
    standing=Standing.EXCEPTION,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.WORKER_PARAMETER_SERVER_LOST, Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH),
)
def code_exception(seen: EvidenceSet) -> Findings:
    """The program raised an exception for a reason of its own, and exited.

    ## What it looks like
    A Python traceback (`KeyError`, `AttributeError`, `AssertionError`, a rejected command-line argument)
    on one or all ranks. The launcher then reports a failed child, and the other ranks lose their peer.

    ## Why it happens
    A bug or a wrong option in the training program, not in the cluster. With several ranks, a common case is code that
    asks the wrapped model for an attribute, or that treats ranks differently.

    ## How we know
    The exception was not caught, contains no known message of a library or the system, and training did not go on
    after it. Exceptions that only report another failure do not count. One that a framework raised is reported as a
    hypothesis, and one that passes on the operating system's answer (a file that was not found) as supported.

    ## What to do
    Look at the frame that is named: it is the innermost one in your own code.

    ## When this is wrong
    The exception may follow from something that printed nothing, such as a file that another rank should have written.
    """
    groups: dict[tuple[str, str, str], list[Raised]] = {}
    foreign = [told for told in unexplained(seen) if not seen.merely_logged(told) and _speaks_of_more(told.fact)]
    for told in unexplained(seen):
        if told.fact.caught or missing_module(told.fact) or told in foreign or (foreign and _may_retell(told.fact)):
            continue
        place = user_frame(told.fact)
        key = (short_type(told.fact), shorten(told.fact.message, 60), f"{place.file}:{place.line}" if place else "")
        groups.setdefault(key, []).append(told)
    sure = {key: found for key, found in groups.items() if not all(seen.merely_logged(e) for e in found)}
    quiet = not seen.broken and bool(seen.all(StepSeen))
    for found in (sure or ({} if quiet else groups)).values():
        yield _found(seen, found)


def _speaks_of_more(fact: ExceptionRaised) -> bool:
    """Whether its wording suggests a cause outside the program: then other rules report it."""
    return speaks_of(fact) is not None or named_in(fact) is not None


def _may_retell(fact: ExceptionRaised) -> bool:
    """Whether it may only pass on another exception."""
    return is_of_a_framework(fact) or bool(_CAUGHT.match(fact.message))


def _found(seen: EvidenceSet, raised: list[Raised]) -> Found:
    first = raised[0]
    fact = first.fact
    frame = user_frame(fact)
    where = f" in {_file(frame.file)}:{frame.line}" if frame and frame.file else ""
    who = ranks_told(seen, tuple(raised))
    subject = f"{ranks(who)} raised" if who else "the program raised"
    line = fact.code[-1].strip() if fact.code else ""  # an assertion without a message says it there
    message = shorten(fact.message.split("\n")[0] or line, 80)
    title = f"{subject} {short_type(fact)}{where}" + (f": {message}" if message else "")
    foreign = is_of_a_framework(fact)
    swallowed = _went_on(seen, first)
    look = Fix(
        do=f"look at {frame.file}, line {frame.line}, in {called(frame.function)}"
        if frame
        else "read the exception's message; "
        + ("all its frames are in installed packages" if fact.frames else "its frames are not in this log")
    )
    return Found(
        title=shorten(title, 150),
        because=(
            f"the program caught it and went on: {swallowed}, so the work is probably not done"
            if swallowed
            else "a framework raised this unrecognised exception; most often it rejects what the program asked for"
            if foreign
            else "the exception was not caught, and matches no known failure of the system or the cluster"
        ),
        evidence=tuple(raised),
        ranks=who,
        confidence=Confidence.HYPOTHESIS if foreign else _grade(fact),
        fixes=(
            look,
            *((_ALL_RANKS,) if any(_is_torch(each.fact) for each in raised) else ()),
            *((_RAISE_AGAIN,) if swallowed else ()),
        ),
    )


def _grade(fact: ExceptionRaised) -> Confidence | None:
    """Established only where nothing but the program can raise it: an operating system's answer has other reasons."""
    return Confidence.SUPPORTED if not fact.frames or short_type(fact) in OF_THE_SYSTEM else None


_CAUGHT = lazy_pattern(r"Caught \w+ in |Traceback |in user code:")

_ALL_RANKS = Fix(
    do="record the tracebacks of all ranks next time", command="export TORCHELASTIC_ERROR_FILE=/tmp/error.json"
)


_RAISE_AGAIN = Fix(do="let the exception end the program, or exit with a status other than 0", code="sys.exit(1)")


def _went_on(seen: EvidenceSet, raised: Raised) -> str | None:
    """How a rank is known to have ended well though this was printed: the program caught it."""
    if raised.who is None:
        return None
    well = seen.once(ends_of).well.get(raised.who)
    if well is not None and well.fact.goodbye:
        return f"rank {raised.who} ended with status 0"
    exits = [e for e in seen.all(ProcessExited) if e.who == raised.who]
    ended = bool(exits) and all(e.fact.code == 0 and e.fact.signal is None for e in exits)
    return f"rank {raised.who} ended with status 0" if ended else None


def _is_torch(fact: ExceptionRaised) -> bool:
    return fact.type.startswith("torch.") or any("/torch/" in (f.file or "") for f in fact.frames)


def _file(path: str | None) -> str:
    return (path or "").replace("\\", "/").rpartition("/")[2]
