# SPDX-License-Identifier: Apache-2.0
"""FRW003: the framework or a library that it uses crashed."""

from __future__ import annotations

from keepstep.model.facts import CoreDump, FatalSignal, NativeAbort, ProcessExited
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.asking.crash import Crash, crashes
from keepstep.rules.asking.crashed_code import Blame, blame, called_from, grouped, innermost, names, standing_of
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK
from keepstep.signals.stacks import Whose

NO_EXCEPTION = "without an active exception"
LEFT_BEHIND = (
    "C++ prints this when a thread still runs while its owner is destroyed, "
    "such as a daemon thread inside native code when Python exits"
)
STOP_THREADS = (
    "stop and join background threads (prefetchers, loggers, store clients) before the script ends, "
    "and destroy the process group"
)


@rule(
    id="FRW003",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(FatalSignal, NativeAbort, CoreDump, ProcessExited),
    confidence=Confidence.SUPPORTED,
    explains=OF_A_DEAD_RANK,
)
def segfault(seen: EvidenceSet) -> Findings:
    """A rank crashed inside the framework or a library, or in native code that nothing identifies.

    ## What it looks like
    `Segmentation fault`, `double free or corruption`, `terminate called`, a failed `Check`, exit code -11, 134
    or 139, a core file, faulthandler's `Fatal Python error`. The other ranks lose their connection or wait.

    ## Why it happens
    A bug in that release; incompatible versions of its libraries; sometimes memory that other code damaged earlier.
    `terminate called without an active exception` at the end of a run that went well: a background thread was inside
    native code when Python exited.

    ## How we know
    The innermost native frame outside the system's libraries, or the innermost Python line, is in the framework or an
    installed package. Without any frame this is a hypothesis, and reported as one.

    ## What to do
    Search the known issues for the named function, try another release, and save a core file for its developers.

    ## When this is wrong
    Without frames, a custom extension is just as likely. `PYTHONFAULTHANDLER=1` or a core file will show it next time.
    """
    found = [(crash, blamed) for crash in crashes(seen) if (blamed := blame(crash)).owner is not Whose.USER]
    for group, blamed in grouped(found):
        first = group[0]
        yield Found(
            title=_title(group, first, blamed),
            because=_because(group, first, blamed),
            evidence=tuple(e for crash in group for e in crash.evidence),
            ranks=tuple(c.rank for c in group if c.rank is not None) or None,
            confidence=blamed.confidence,
            standing=standing_of(seen, first, blamed),
            fixes=_fixes(first, blamed),
        )


def _title(group: list[Crash], first: Crash, blamed: Blame) -> str:
    if blamed.said:
        return f"{names(group)} aborted: {blamed.at}"
    how = f"({first.signal})" if first.signal else "(abort)"
    if not blamed.at:
        return f"{names(group)} crashed {how} in native code"
    return f"{names(group)} crashed {how} in {blamed.at}{called_from(first, blamed.at)}"


def _because(group: list[Crash], first: Crash, blamed: Blame) -> str:
    if blamed.loading:
        return (
            f"{names(group)} ended with {first.how} while loading a module, which was probably built for another system"
        )
    if not blamed.at:
        return f"{names(group)} ended with {first.how} at an unknown place; usually that is the framework's native code"
    if blamed.said:
        whose = "native code" if blamed.confidence is Confidence.HYPOTHESIS else "the framework"
        left = f"; {LEFT_BEHIND}" if NO_EXCEPTION in blamed.at else ""
        return f"{whose} of {names(group)} aborted by itself: {blamed.at}{left}"
    ended = f"{names(group)} ended with {first.how} in {blamed.at}"
    if blamed.confidence is Confidence.HYPOTHESIS:
        return f"{ended}; nothing shows whose native code that was, and a signal from another process looks the same"
    return f"{ended}, which belongs to an installed package, not to your code{innermost(first, blamed.at)}"


def _fixes(first: Crash, blamed: Blame) -> tuple[Fix, ...]:
    see = Fix(do="print the Python line of the next crash", command="export PYTHONFAULTHANDLER=1")
    core = Fix(do="save a core file, and read it", command="ulimit -c unlimited; keepstep why core*")
    if NO_EXCEPTION in blamed.at:
        return (Fix(do=STOP_THREADS, safety=Safety.NEEDS_OWNER), see, core)
    if first.frames:
        return (
            Fix(
                do="search the framework's known issues for the named function; try the next or previous release",
                safety=Safety.NEEDS_OWNER,
            ),
            core,
        )
    return (see, core)
