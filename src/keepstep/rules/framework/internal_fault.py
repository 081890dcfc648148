# SPDX-License-Identifier: Apache-2.0
"""FRW002: the framework says that it is itself at fault."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.environment import InternalFault
from keepstep.core.facts.resource import AllocationAbsurd
from keepstep.core.finding import Confidence, Fix, Found, Safety, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import shorten
from keepstep.rules.data.lookup import FALLOUT, lasting, who


@rule(
    id="FRW002",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(InternalFault, AllocationAbsurd),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=FALLOUT,
)
def internal_fault(seen: EvidenceSet) -> Iterator[Found]:
    """The framework says that it is itself at fault.

    ## What it looks like
    `INTERNAL ASSERT FAILED at ...`, `please report a bug to PyTorch`, `This is a bug`; or an allocation of more
    bytes at once than any host has, which is a damaged size and no want of memory.

    ## Why it happens
    A state that the framework's authors held to be impossible was reached: a fault of that release, or of
    something below it (driver, compiler, memory) that broke its assumptions.

    ## How we know
    The framework's own check failed and says whose fault it is. Anything else that explains the failure
    is reported before this.

    ## What to do
    Search the release's known issues for the assert's file and line, and try the next release.

    ## When this is wrong
    A device error or a lost peer just before can lead into the same assert.
    """
    found = lasting(seen, InternalFault)
    absurd = lasting(seen, AllocationAbsurd)
    if absurd and not found:
        yield Found(
            title=f"{who(absurd)} asked for {absurd[0].fact.requested} bytes of memory at once",
            because="no program means that number: a size was damaged, mostly by libraries that do not go together",
            evidence=absurd[:6],
            fixes=(
                Fix(do="load only one of the frameworks in this process, or versions that were built together"),
                Fix(do="try the next release of the framework", safety=Safety.NEEDS_OWNER),
            ),
        )
    if not found:
        return
    yield Found(
        title=f"{who(found)} met a failed internal check: {shorten(found[0].fact.what, 90)}",
        because="the framework calls this a fault of its own",
        evidence=found[:6],
        fixes=(
            Fix(do="search the known issues for the file and line of the check"),
            Fix(do="try the next release of the framework", safety=Safety.NEEDS_OWNER),
        ),
    )
