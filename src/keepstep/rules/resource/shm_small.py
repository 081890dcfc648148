# SPDX-License-Identifier: Apache-2.0
"""RES103: shared memory is small."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.host import SharedMemorySeen
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import size


@rule(id="RES103", cause=Cause.RESOURCE_SHM, needs=(SharedMemorySeen,))
def shm_small(seen: EvidenceSet) -> Iterator[Found]:
    """Shared memory is too small for loader workers or NCCL.

    ## What it looks like
    /dev/shm has 64 MB, as containers have it unless told otherwise. DataLoader workers die with `Bus error`,
    NCCL says `unable to allocate shared memory`.

    ## Why it happens
    Docker's default, or a pod without a memory volume there.

    ## How we know
    The size of the file system at /dev/shm.

    ## What to do
    Give the container more.

    ## When this is wrong
    Neither loader workers nor several GPUs are used.
    """
    for each in seen.all(SharedMemorySeen):
        if each.fact.free < 512 << 20:
            yield Found(
                title=f"/dev/shm has {size(each.fact.free)} free of {size(each.fact.total)} on {each.origin.source.rpartition(' on ')[2]}",
                because="loader workers and NCCL hand over data through it and die with a bus error when it is full",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(do="give the container more", command="docker run --shm-size=16g ..."),
                    Fix(do="or enlarge it", command="sudo mount -o remount,size=16G /dev/shm"),
                ),
            )
