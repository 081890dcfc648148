# SPDX-License-Identifier: Apache-2.0
"""RES007: another process held what this one needed."""

from __future__ import annotations

from keepstep.rules.api import Cause, Contention, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who


@rule(id="RES007", cause=Cause.RESOURCE_CONTENTION, needs=(Contention,), explains=OF_A_DEAD_RANK)
def contention(seen: EvidenceSet) -> Findings:
    """Another process or job held the device or resource that this one needed.

    ## What it looks like
    `all CUDA-capable devices are busy or unavailable`, `cudaErrorDevicesUnavailable`.

    ## Why it happens
    The GPU is in exclusive-process mode and two ranks share it, or an earlier run is still alive.

    ## How we know
    The driver says that the device is in use.

    ## What to do
    Check which processes use the device, end leftover ones, and give each rank its own device.

    ## When this is wrong
    A broken GPU gives the same error. Check the kernel log for Xid messages.
    """
    held = once_a_line(e for e in seen.all(Contention) if not seen.survived(e))
    if not held:
        return
    yield Found(
        title=f"{who(held)} did not get its device: {held[0].fact.what}",
        because=held[0].fact.what,
        evidence=held,
        fixes=(
            Fix(
                do="check which processes hold the devices",
                command="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            ),
            Fix(do="check the compute mode; it should be Default", command="nvidia-smi -q -d COMPUTE"),
            Fix(do="bind each process to its own device", code="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"),
        ),
    )
