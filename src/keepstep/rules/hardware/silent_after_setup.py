# SPDX-License-Identifier: Apache-2.0
"""HWD008: the run fell silent as soon as direct links between GPUs had been set up."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import TransportUsed
from keepstep.core.facts.process import ExceptionRaised
from keepstep.core.facts.sync import CollectiveTimeout
from keepstep.core.facts.training import PhaseSeen, StepSeen, StreamEnded
from keepstep.core.finding import Confidence, Fix, Found, Safety, Standing
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.rule import rule

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
def silent_after_setup(seen: EvidenceSet) -> Iterator[Found]:
    """NCCL had set up direct links between GPUs, and not a word came after that.

    ## What it looks like
    `Channel 00 : 0[0] -> 1[1] via P2P/IPC`, `Connected all trees`, `Init COMPLETE` as the last words of every rank;
    the GPUs show full use and nothing happens.

    ## Why it happens
    The first collective does not come to an end, because direct access between the cards (PCIe peer-to-peer) does
    not work: the IOMMU or PCIe access control (ACS) redirects it, or the driver offers it for cards without it.

    ## How we know
    We do not: the log only ends there, with no step and no error. Among the reasons for just that, this is the usual one.

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
        title="nothing came after NCCL had set up direct links between the GPUs",
        because="the log ends between set-up and the first result; direct access that does not work is the usual reason",
        evidence=(*direct[:2], *ends[-1:]),
        ranks=(),
        fixes=(
            Fix(do="run without peer-to-peer, to confirm", command="export NCCL_P2P_DISABLE=1"),
            Fix(do="see where each rank is stuck", command="py-spy dump --pid PID"),
            Fix(do="switch the IOMMU and PCIe ACS off in firmware or kernel", safety=Safety.NEEDS_OWNER),
        ),
    )
