# SPDX-License-Identifier: Apache-2.0
"""HWD002: a link between devices failed."""

from __future__ import annotations

from keepstep.rules.api import Cause, DeviceFault, EvidenceSet, Findings, Fix, Found, PeerAccessFault, Safety, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who

_PCIE = "uncorrected PCIe error"
_OFF_THE_BUS = 79


@rule(
    id="HWD002",
    cause=Cause.HARDWARE_NVLINK_PCIE_P2P,
    needs=(PeerAccessFault,),
    explains=(*OF_A_DEAD_RANK, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.HARDWARE_GPU_FAULT_XID_ECC),
)
def nvlink_pcie_p2p(seen: EvidenceSet) -> Findings:
    """A link between GPUs (NVLink, NVSwitch, PCIe peer-to-peer) failed or could not be set up.

    ## What it looks like
    Xid 74, `uncorrectable NVLink error`, `peer access is not supported between these two devices`, NCCL failing to open
    a peer's memory, PCIe AER errors, a fabric manager that is not running.

    ## Why it happens
    A loose or broken bridge, PCIe access control (ACS) or the IOMMU between the GPUs, virtual machines that hide the
    topology, a fabric manager whose version differs from the driver's.

    ## How we know
    The driver, the kernel or NCCL names the link.

    ## What to do
    Check the state of the links. Run without peer-to-peer to confirm.

    ## When this is wrong
    TensorFlow also prints that peer access could not be enabled when it was never needed; that alone does not count.
    """
    faults = once_a_line(e for e in seen.all(PeerAccessFault) if e.fact.fatal and not seen.survived(e))
    if not faults:
        return
    if all(e.fact.what == _PCIE for e in faults) and any(e.fact.xid == _OFF_THE_BUS for e in seen.all(DeviceFault)):
        return  # the GPU left the bus: the errors of its slot are the same event
    yield Found(
        title=f"a link between GPUs of {who(faults)} failed: {faults[0].fact.what}",
        because=f"the driver, the kernel or NCCL reported: {faults[0].fact.what}",
        evidence=faults,
        fixes=(
            Fix(do="check links, errors and topology", command="nvidia-smi nvlink -s; nvidia-smi topo -m"),
            Fix(do="run without peer-to-peer, to confirm", command="export NCCL_P2P_DISABLE=1"),
            Fix(
                do="check that the fabric manager is running (NVSwitch machines)",
                command="systemctl status nvidia-fabricmanager",
            ),
            Fix(do="turn PCIe ACS off, or take the node out of service", safety=Safety.NEEDS_OWNER),
        ),
    )
