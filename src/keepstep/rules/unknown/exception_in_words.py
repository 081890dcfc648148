# SPDX-License-Identifier: Apache-2.0
"""UNK002: an exception that no signature matches, but whose wording suggests a cause."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule, shorten
from keepstep.rules.asking.exceptions import Raised, missing_module, place_of, ranks_told, short_type
from keepstep.rules.last_resort.naming import Named, named_in
from keepstep.rules.last_resort.words import speaks_of, unexplained


@rule(
    id="UNK002",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ExceptionRaised,),
    standing=Standing.EXCEPTION,
    confidence=Confidence.HYPOTHESIS,
)
def exception_in_words(seen: EvidenceSet) -> Findings:
    """An unrecognised exception ended the program, and its wording suggests a cause outside the program.

    ## What it looks like
    A traceback whose last line is a message of a library or of the system, on one or all ranks.

    ## Why it happens
    Libraries can print far more errors than any table lists. The wording still shows the subject: memory, an
    address, a checkpoint, a shape, a version.

    ## How we know
    The words of the exception are weighed, cause by cause, and one cause is clearly ahead. It is a guess, and is
    always reported as a hypothesis.

    ## What to do
    Read the exception itself, which is quoted. Then follow the advice of the rules for that cause.

    ## When this is wrong
    When the message mentions something only in passing, as advice at the end of a message often does.
    """
    groups: dict[tuple[str, str], list[tuple[Raised, Named]]] = {}
    for told in unexplained(seen):
        if speaks_of(told.fact) is not None or missing_module(told.fact) is not None or seen.merely_logged(told):
            continue
        named = named_in(told.fact)
        if named is not None:
            groups.setdefault((short_type(told.fact), shorten(told.fact.message, 60)), []).append((told, named))
    for found in groups.values():
        raised = tuple(told for told, _ in found)
        named = found[0][1]
        fact = raised[0].fact
        message = shorten(fact.message.split("\n")[0], 80)
        yield Found(
            title=f"{short_type(fact)}{place_of(fact)} suggests {named.name}: {message}",
            because=f"unrecognised message; its wording ({named.quoted}) suggests {named.name}",
            evidence=raised,
            ranks=ranks_told(seen, raised),
            confidence=Confidence.HYPOTHESIS,
            cause=named.cause,
            fixes=(Fix(do="read the whole message and the frames above it; the cause is a guess from the wording"),),
        )
