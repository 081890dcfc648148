# SPDX-License-Identifier: Apache-2.0
"""HWD008: the run went silent once direct links between GPUs were set up."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout, ExceptionRaised, PhaseSeen, StepSeen, StreamEnded, TransportUsed
from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Standing,
    lazy_pattern,
    rule,
)

_SET_UP = lazy_pattern(
    r"NCCL INFO .{0,200}(?:Init COMPLETE|Connected all (?:trees|rings)|coll channels|threadThresholds|Launch mode)"
)


@rule(
    id="HWD008",
    cause=Cause.HARDWARE_NVLINK_PCIE_P2P,
    needs=(TransportUsed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
)
def silent_after_setup(seen: EvidenceSet) -> Findings:
    """NCCL set up direct links between GPUs, and nothing was printed after that.

    ## What it looks like
    `Channel 00 : 0[0] -> 1[1] via P2P/IPC`, `Connected all trees`, `Init COMPLETE` as the last lines of every rank; the
    GPUs show full utilisation and nothing happens.

    ## Why it happens
    The first collective never finishes, because direct access between the GPUs (PCIe peer-to-peer) does not work: the
    IOMMU or PCIe access control (ACS) redirects it, or the driver offers it for GPUs that do not support it.

    ## How we know
    We do not: the log just ends there, with no step and no error. This is the most common reason for that.

    ## What to do
    Run once without peer-to-peer.

    ## When this is wrong
    The log was cut, or the program does not print anything while it trains.
    """
    direct = seen.all(TransportUsed)
    if seen.broken or any(seen.all(kind) for kind in (StepSeen, PhaseSeen, ExceptionRaised, CollectiveTimeout)):
        return
    ends = seen.all(StreamEnded)
    if len({e.who for e in direct}) < 2 or not ends or not all(_SET_UP.search(e.fact.last) for e in ends):
        return
    yield Found(
        title="nothing was printed after NCCL set up direct links between the GPUs",
        because="the log ends between setup and the first result; usually, direct access between the GPUs is broken",
        evidence=(*direct[:2], *ends[-1:]),
        ranks=(),
        fixes=(
            Fix(do="run without peer-to-peer, to confirm", command="export NCCL_P2P_DISABLE=1"),
            Fix(do="check where each rank is stuck", command="py-spy dump --pid PID"),
            Fix(do="turn the IOMMU and PCIe ACS off in the firmware or kernel", safety=Safety.NEEDS_OWNER),
        ),
    )
