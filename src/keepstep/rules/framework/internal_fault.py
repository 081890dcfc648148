# SPDX-License-Identifier: Apache-2.0
"""FRW002: the framework reports a bug of its own."""

from __future__ import annotations

from keepstep.model.facts import AllocationAbsurd, InternalFault
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Standing, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT, lasting, who


@rule(
    id="FRW002",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(InternalFault, AllocationAbsurd),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=FALLOUT,
)
def internal_fault(seen: EvidenceSet) -> Findings:
    """The framework reports a bug of its own.

    ## What it looks like
    `INTERNAL ASSERT FAILED at ...`, `please report a bug to PyTorch`, `This is a bug`; or one allocation of more bytes
    than any host has, which means a corrupted size, not a lack of memory.

    ## Why it happens
    The framework reached a state that its authors thought impossible: a bug in that release, or a fault below it
    (driver, compiler, memory) that broke its assumptions.

    ## How we know
    An internal check of the framework failed and says so. Any other explanation of the failure is reported first.

    ## What to do
    Search the release's known issues for the file and line of the assertion, and try the next release.

    ## When this is wrong
    A device error or a lost peer just before can trigger the same assertion.
    """
    found = lasting(seen, InternalFault)
    absurd = lasting(seen, AllocationAbsurd)
    if absurd and not found:
        yield Found(
            title=f"{who(absurd)} requested {absurd[0].fact.requested} bytes of memory at once",
            because="no program asks for that much: the size was corrupted, usually by incompatible libraries",
            evidence=absurd[:6],
            fixes=(
                Fix(do="load only one of the frameworks in this process, or versions that were built together"),
                Fix(do="try the next release of the framework", safety=Safety.NEEDS_OWNER),
            ),
        )
    if not found:
        return
    yield Found(
        title=f"{who(found)} failed an internal check of the framework: {shorten(found[0].fact.what, 90)}",
        because="the framework itself calls this a bug",
        evidence=found[:6],
        fixes=(
            Fix(do="search the known issues for the file and line of the check"),
            Fix(do="try the next release of the framework", safety=Safety.NEEDS_OWNER),
        ),
    )
