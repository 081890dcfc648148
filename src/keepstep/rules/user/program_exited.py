# SPDX-License-Identifier: Apache-2.0
"""USR003: the program ended itself with a status other than 0."""

from __future__ import annotations

from keepstep.model.facts import ProcessExited, RankEnded
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    rule,
    shorten,
)
from keepstep.rules.asking.left_by_itself import last_words, left_by_itself


@rule(
    id="USR003",
    cause=Cause.USER_CODE_EXCEPTION,
    needs=(RankEnded, ProcessExited),
    standing=Standing.EXCEPTION,
    confidence=Confidence.SUPPORTED,
    explains=SEEN_BY_OTHER_RANKS,
)
def program_exited(seen: EvidenceSet) -> Findings:
    """The program ended one rank itself, with a status other than 0, and no exception was printed.

    ## What it looks like
    `rank 1 ended with exit code 3` and no traceback. The other ranks lose their peer.

    ## Why it happens
    The program, or a library that it calls, called `sys.exit(3)` or raised `SystemExit("bad arguments")`: Python prints
    the text, if there is one, and no traceback.

    ## How we know
    The rank's own black box says goodbye with that status, or `keepstep run` saw it. A process that is killed or
    crashes says no goodbye. It was the first to end, and its output has no message of a known failure. The guard
    noted the line that called `sys.exit` or raised SystemExit.

    ## What to do
    Look at the line that called exit, or for the words that were printed last.

    ## When this is wrong
    A native library may call `exit` too; then the line is not known.
    """
    left = left_by_itself(seen)
    if left is None:
        return
    fact = left.fact
    status = fact.status if isinstance(fact, RankEnded) else fact.code
    place = fact.place if isinstance(fact, RankEnded) else None
    said = last_words(seen, left.who)
    words = (fact.words if isinstance(fact, RankEnded) else None) or (said[1] if said is not None else None)
    where = f" in {place}" if place else ""
    tail = f": {shorten(words, 80)}" if words else ""
    yield Found(
        title=f"rank {left.who} ended itself with status {status}{where}{tail}",
        because=(
            "the program exited there by itself (sys.exit or SystemExit), with no other exception"
            if place
            else "it exited by itself, with no exception"
            + (", and these are its last words" if words else "; its output does not say why")
        ),
        evidence=(left, said[0]) if said is not None else (left,),
        ranks=(left.who,) if left.who is not None else (),
        confidence=Confidence.ESTABLISHED if place else None,
        fixes=(
            Fix(do=f"look at {place}: why does it exit there?")
            if place
            else Fix(
                do="look for sys.exit, exit() and SystemExit in the program", command="grep -rnE 'exit\\(|SystemExit' ."
            ),
        ),
    )
