# SPDX-License-Identifier: Apache-2.0
"""CFG004: two places disagree on how many ranks or devices there are."""

from __future__ import annotations

from keepstep.model.facts import BatchNotDivisible, DeviceShared, WorldSizeConflict
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.asking.exceptions import over_parallel_ranks
from keepstep.rules.asking.fallout import FALLOUT, lasting, who


@rule(
    id="CFG004",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(WorldSizeConflict, DeviceShared, BatchNotDivisible),
    explains=(*FALLOUT, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.HARDWARE_GPU_FAULT_XID_ECC),
)
def world_size_mismatch(seen: EvidenceSet) -> Findings:
    """Two places disagree on how many ranks or devices there are.

    ## What it looks like
    `Invalid rank 4, rank should be in the interval [0, 3]`, `CUDA error: invalid device ordinal` on the higher
    ranks, `You requested gpu: [0, 1] But your machine only has: [0]`, `not enough slots available`.

    ## Why it happens
    More processes were started on a host than it has devices, or the trainer's number of nodes and devices differs from
    the launcher's.

    ## How we know
    The message has both numbers, or a rank asked for a device that does not exist.

    ## What to do
    Make the launcher's processes per host, the scheduler's tasks and the trainer's devices the same number.

    ## When this is wrong
    CUDA_VISIBLE_DEVICES hides devices that the rank needs. Then the number is right, and the mask is wrong.
    """
    found = lasting(seen, WorldSizeConflict)
    if found:
        first = next((e.fact for e in found if e.fact.seen and e.fact.expected), found[0].fact)
        numbers = f": {first.seen} against {first.expected}" if first.seen and first.expected else ""
        yield Found(
            title=f"the run's sizes do not agree on {first.what or 'the number of ranks'}{numbers}",
            because="the launcher and the program count ranks or devices differently",
            evidence=found,
            fixes=_FIXES,
        )
    uneven = tuple(e for e in lasting(seen, BatchNotDivisible) if over_parallel_ranks(seen, e))
    if uneven:
        yield Found(
            title="a part of the model could not be split over the ranks: "
            f"{uneven[0].fact.batch} over {uneven[0].fact.parts}",
            because="the model's heads, layers or other parts must be divisible by the number of parallel ranks",
            evidence=uneven,
            fixes=(Fix(do="choose a parallel size that divides the model's heads, layers and hidden size"),),
        )
    absent = tuple(e for e in lasting(seen, DeviceShared) if not e.fact.ranks)
    if absent:
        device = next((e.fact.device for e in absent if e.fact.device), None)
        yield Found(
            title=f"{who(absent)} asked for a device that does not exist" + (f": {device}" if device else ""),
            because="more ranks were started on the host than it has visible devices",
            evidence=absent,
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )


_FIXES = (
    Fix(do="count the devices that are visible on this host", command="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"),
    Fix(do="start as many processes as there are devices", command="torchrun --nproc-per-node=gpu train.py"),
)
