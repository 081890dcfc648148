# SPDX-License-Identifier: Apache-2.0
"""HWD007: a rank read nothing but zeros from another rank."""

from __future__ import annotations

from keepstep.model.facts import ModelsDiffer
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, lazy_pattern, rule, shorten

_NOTHING = lazy_pattern(r"while rank \d+ has (?:inconsistent )?0 params")


@rule(
    id="HWD007",
    cause=Cause.HARDWARE_NVLINK_PCIE_P2P,
    needs=(ModelsDiffer,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.SYNC_REPLICA_DESYNC,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    ),
)
def peers_read_nothing(seen: EvidenceSet) -> Findings:
    """The first exchange between ranks delivered zeros: direct access between their GPUs does not work.

    ## What it looks like
    `DDP expects same model across all ranks, but Rank 0 has 382 params, while rank 1 has inconsistent 0 params`.

    ## Why it happens
    The ranks exchange their number of parameters through the GPUs. A model without parameters is rejected earlier, so
    no rank sent the zero: it was already in the buffer. Direct writes between the GPUs got lost, usually because the
    IOMMU or PCIe access control (ACS) redirects them.

    ## How we know
    The number is exactly 0, which no rank can have had.

    ## What to do
    Run without peer-to-peer. If that works, turn the IOMMU or ACS off.

    ## When this is wrong
    If the ranks compared the numbers through a CPU backend, one of them may have run another program.
    """
    zero = [e for e in seen.all(ModelsDiffer) if _NOTHING.search(e.fact.detail or "") and not seen.survived(e)]
    if not zero:
        return
    yield Found(
        title=f"ranks read zeros from each other: {shorten(zero[0].fact.detail or '', 60)}",
        because="no rank can have had 0 parameters, so the exchange between the GPUs lost the data",
        evidence=tuple(zero),
        ranks=(),
        fixes=(
            Fix(do="run without peer-to-peer, to confirm", command="export NCCL_P2P_DISABLE=1"),
            Fix(
                do="turn the IOMMU and PCIe ACS off in the firmware or kernel",
                command="dmesg -T | grep -iE 'dmar|amd-vi|iommu'",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )
