# SPDX-License-Identifier: Apache-2.0
"""USR002: the user's own native code crashed."""

from __future__ import annotations

from keepstep.model.facts import CoreDump, FatalSignal, NativeAbort
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.asking.crash import Crash, crashes
from keepstep.rules.asking.crashed_code import (
    OWN_ABORT,
    Blame,
    blame,
    called_from,
    grouped,
    innermost,
    names,
    standing_of,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK
from keepstep.signals.stacks import Whose


@rule(
    id="USR002",
    cause=Cause.USER_NATIVE_CRASH,
    needs=(FatalSignal, NativeAbort, CoreDump),
    explains=(*OF_A_DEAD_RANK, Cause.FRAMEWORK_BUG_SEGFAULT),
)
def native_crash(seen: EvidenceSet) -> Findings:
    """A rank crashed in the user's own native code: an extension, ctypes, cffi.

    ## What it looks like
    `Segmentation fault`, exit code -11 or 139, a core file, or faulthandler's `Fatal Python error`. The other
    ranks lose their connection to it or wait for it.

    ## Why it happens
    A custom extension, a custom operator or a `ctypes` call read or wrote memory that it does not own: a null
    pointer, a buffer that was freed or is too short, wrong argument types, a missing `argtypes`.
    Or the program ended itself with `os.abort()`.

    ## How we know
    The innermost native frame outside the system's libraries is in a library that belongs to no installed package, or
    the last Python lines lead from the user's own file through `ctypes` or `cffi`. An abort at a line of the user's own
    that printed nothing is perhaps `os.abort()`: a library that gives up prints why. A core file shows it.

    ## What to do
    Run the named line alone with the same inputs; build the extension with `-g -fsanitize=address`.

    ## When this is wrong
    Another library may have damaged the memory earlier, and the crash only showed here. An abort may have
    been sent by another process, such as a watchdog.
    """
    found = [(crash, blamed) for crash in crashes(seen) if (blamed := blame(crash)).owner is Whose.USER]
    for group, blamed in grouped(found):
        first = group[0]
        sure = blamed.confidence is not Confidence.HYPOTHESIS
        yield Found(
            title=f"{names(group)} crashed ({first.signal or 'abort'}) in {blamed.at}{called_from(first, blamed.at)}",
            because=(
                f"{names(group)} ended with {first.how} in {blamed.at}, which "
                f"{'belongs to neither the framework nor an installed package' if sure else 'is perhaps your own code'}"
                f"{innermost(first, blamed.at)}"
            ),
            evidence=tuple(e for crash in group for e in crash.evidence),
            ranks=tuple(c.rank for c in group if c.rank is not None) or None,
            confidence=blamed.confidence,
            standing=standing_of(seen, first, blamed),
            fixes=_fixes(first, blamed),
        )


def _fixes(crash: Crash, blamed: Blame) -> tuple[Fix, ...]:
    if blamed.at.startswith(OWN_ABORT):
        return (Fix(do="see why the program ends itself there"),)
    look = "look at the native code that this line calls; run it alone with the same inputs"
    if crash.is_quiet_abort:
        look = f"see whether this line calls {OWN_ABORT}, or native code that ends the process without a word"
    return (
        Fix(do=look),
        Fix(do="find the invalid memory access", command="valgrind --tool=memcheck python SCRIPT")
        if crash.frames
        else Fix(do="print the Python line of the next crash", command="export PYTHONFAULTHANDLER=1"),
    )
