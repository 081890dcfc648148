# SPDX-License-Identifier: Apache-2.0
"""RES103: shared memory is small."""

from __future__ import annotations

from keepstep.model.facts import SharedMemorySeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule, size
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES103", cause=Cause.RESOURCE_SHM, needs=(SharedMemorySeen,))
def shm_small(seen: EvidenceSet) -> Findings:
    """Shared memory is too small for loader workers or NCCL.

    ## What it looks like
    /dev/shm has 64 MB, the default for containers. DataLoader workers die with `Bus error`, and NCCL prints `unable to
    allocate shared memory`.

    ## Why it happens
    Docker's default, or a pod without a memory volume at /dev/shm.

    ## How we know
    The size of the file system at /dev/shm.

    ## What to do
    Give the container more shared memory.

    ## When this is wrong
    Neither loader workers nor several GPUs are used.
    """
    for each in seen.all(SharedMemorySeen):
        if each.fact.free < 512 << 20:
            yield Found(
                title=f"/dev/shm has {size(each.fact.free)} free of {size(each.fact.total)} on {host_of(each)}",
                because="loader workers and NCCL pass data through it, and die with a bus error when it is full",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(do="give the container more shared memory", command="docker run --shm-size=16g IMAGE"),
                    Fix(do="or enlarge it", command="sudo mount -o remount,size=16G /dev/shm"),
                ),
            )
