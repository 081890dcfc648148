# SPDX-License-Identifier: Apache-2.0
"""HWD006: every rank hung in the very first collective, over a direct link between GPUs."""

from __future__ import annotations

from keepstep.model.facts import CollectiveProgress, CollectiveTimeout, StepSeen, TransportUsed
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Standing, rule
from keepstep.rules.api import ranks as say_ranks

FIRST = 1
"""The sequence number of the first collective of a group."""


@rule(
    id="HWD006",
    cause=Cause.HARDWARE_NVLINK_PCIE_P2P,
    needs=(CollectiveTimeout,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.NETWORK_CONNECTION_RESET_PEER_DIED),
)
def first_collective_stuck(seen: EvidenceSet) -> Findings:
    """All ranks entered the very first collective and none finished it, over direct links between GPUs.

    ## What it looks like
    NCCL's `Channel 00/0 : 0[0] -> 1[1] via P2P`, then `WorkNCCL(SeqNum=1, ...)` times out on every rank, with
    `last completed work: -1` or 0.

    ## Why it happens
    The GPUs report direct access (PCIe peer-to-peer), but it does not work: the IOMMU or PCIe access control (ACS) is
    on, the GPUs are on different root ports, or the driver offers it for GPUs that do not support it.

    ## How we know
    No rank is missing: each waits in the same first collective, so the program did not send them down different
    branches. That leaves the path between them, which NCCL names. It is a hypothesis until a run without it works.

    ## What to do
    Run once without peer-to-peer. If that works, turn the IOMMU or ACS off, or keep peer-to-peer off.

    ## When this is wrong
    If a rank without a log died before, the others look the same.
    """
    direct = seen.all(TransportUsed)
    first = _of_each_rank(seen)
    if not direct or len(first) < 2 or seen.all(StepSeen):
        return
    if {e.fact.seq for e in first.values()} != {FIRST} or len(
        {(e.fact.op, e.fact.numel_in) for e in first.values()}
    ) > 1:
        return
    if seen.world_size is not None and len(first) < seen.world_size:
        return
    if any((e.fact.last_completed or 0) > 0 for e in seen.all(CollectiveProgress)):
        return
    yield Found(
        title=f"{say_ranks(first)} all hung in the very first collective, over direct GPU-to-GPU access",
        because="every rank is in the same first collective, so none is missing; the link between the GPUs is suspect",
        evidence=(*direct[:2], *first.values()),
        ranks=(),
        fixes=(
            Fix(do="run without peer-to-peer, to confirm", command="export NCCL_P2P_DISABLE=1"),
            Fix(do="check how the GPUs are connected", command="nvidia-smi topo -m; nvidia-smi topo -p2p rw"),
            Fix(
                do="turn the IOMMU and PCIe ACS off in the firmware or kernel",
                command="dmesg -T | grep -iE 'dmar|amd-vi|iommu'",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )


def _of_each_rank(seen: EvidenceSet) -> dict[int, Evidence[CollectiveTimeout]]:
    found: dict[int, Evidence[CollectiveTimeout]] = {}
    for e in seen.all(CollectiveTimeout):
        if e.who is not None and e.fact.seq is not None:
            found.setdefault(e.who, e)
    return found
