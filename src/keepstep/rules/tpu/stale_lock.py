# SPDX-License-Identifier: Apache-2.0
"""TPU101: a lock of the TPU driver is there."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.host import LockFileSeen
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule


@rule(id="TPU101", cause=Cause.TPU_DEVICE_BUSY_IN_USE, needs=(LockFileSeen,))
def stale_lock(seen: EvidenceSet) -> Iterator[Found]:
    """A lock file of the TPU driver is there before the run starts.

    ## What it looks like
    /tmp/libtpu_lockfile exists; libtpu says that the TPU is already in use.

    ## Why it happens
    Another process uses the TPU, or one that was killed left the file.

    ## How we know
    The file, and the kernel's list of who holds a lock on it. Built from libtpu's documented behaviour, not
    tried on a TPU.

    ## What to do
    End the process that holds it; where nobody does, remove the file.

    ## When this is wrong
    Newer libtpu versions remove a stale file themselves.
    """
    for each in seen.all(LockFileSeen):
        fact = each.fact
        how = f"{fact.holder} holds it" if fact.holder else "nobody holds it any more"
        yield Found(
            title=f"the TPU's lock {fact.path} is there, and {how}",
            because="libtpu would say that the TPU is already in use",
            evidence=(each,),
            severity=Severity.WARNING,
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(do="end the process that uses the TPU", command=f"fuser -v {fact.path}")
                if fact.holder
                else Fix(do="remove the left-over", command=f"sudo rm {fact.path}"),
            ),
        )
