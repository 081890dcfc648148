# SPDX-License-Identifier: Apache-2.0
"""HWD001: a GPU reported a fault of its own."""

from __future__ import annotations

from keepstep.model.facts import DeviceFault
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Standing, ranks_of, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who

_AFTER_A_DEATH = (43, 45)
"""The driver's clean-up when a program that used the GPU is killed, by anybody, for any reason."""
_VAGUE = ("unspecified launch failure", "unknown CUDA error", "the GPU", "hardware stack error")


@rule(
    id="HWD001",
    cause=Cause.HARDWARE_GPU_FAULT_XID_ECC,
    needs=(DeviceFault,),
    explains=(
        *OF_A_DEAD_RANK,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_NATIVE_CRASH,
        Cause.DATA_LABEL_OUT_OF_RANGE,
        Cause.HARDWARE_NVLINK_PCIE_P2P,
    ),
)
def gpu_fault_xid_ecc(seen: EvidenceSet) -> Findings:
    """A GPU reported a fault of its own: memory errors, a lost device, a fatal Xid.

    ## What it looks like
    `uncorrectable ECC error encountered`, `NVRM: Xid (PCI:...): 79, GPU has fallen off the bus`, `GPU is lost`,
    Xid 48, 63, 64, 92, 94, 95, 119, 120, 140.

    ## Why it happens
    Faulty memory, power, heat or a badly seated device; sometimes the driver's firmware.

    ## How we know
    The device or its driver says so. The program usually causes Xid 13 and 31 itself (a kernel with an invalid
    access), and unspecified launch failures too: those give only a hypothesis. Xid 43 and 45 alone give none: they
    come whenever a program is killed that uses the GPU.

    ## What to do
    Take the node out of service, reset the GPU, run the vendor's diagnostics; restart elsewhere from a checkpoint.

    ## When this is wrong
    A faulty library kernel can cause such Xids on healthy hardware, on every node alike.
    """
    faults = once_a_line(e for e in seen.all(DeviceFault) if not seen.survived(e) or e.fact.hardware)
    sure = tuple(e for e in faults if e.fact.hardware)
    maybe = tuple(e for e in faults if not e.fact.hardware and (_names_a_fault(e.fact) or e.fact.what in _VAGUE))
    evidence = sure or maybe
    if not evidence:
        return
    fact = evidence[0].fact
    felt = set(ranks_of(faults))
    ranks = tuple(felt) if sure and not ranks_of(sure) and len(felt) == 1 else None
    device = f" on {fact.device}" if fact.device else ""
    yield Found(
        title=f"the GPU of {who(evidence, ranks or ())} reported a fault{device}: {fact.what}",
        because=f"the device or its driver reported: {fact.what}",
        evidence=evidence,
        ranks=ranks,
        confidence=None if sure else Confidence.HYPOTHESIS,
        standing=None if sure else Standing.EXCEPTION,
        fixes=(
            Fix(do="check what the driver reported", command="dmesg -T | grep -i xid"),
            Fix(do="check ECC counters and retired pages", command="nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER"),
            Fix(
                do="take the node out of service and run the diagnostics",
                command="dcgmi diag -r 3",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(do="restart from the last checkpoint without this node"),
        ),
    )


def _names_a_fault(fact: DeviceFault) -> bool:
    return fact.xid is not None and fact.xid not in _AFTER_A_DEATH
