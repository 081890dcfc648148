# SPDX-License-Identifier: Apache-2.0
"""HWD010: two GPUs exchange far less than their link gives."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTried
from keepstep.rules.api import Cause, EvidenceSet, Findings, Severity, rule
from keepstep.rules.asking.slow_links import slow_links


@rule(id="HWD010", cause=Cause.HARDWARE_NVLINK_PCIE_P2P, needs=(CollectiveTried,), severity=Severity.WARNING)
def slow_gpu_link(seen: EvidenceSet) -> Findings:
    """Two GPUs of a host exchange far less than their NVLink or PCIe gives, or than other pairs with that kind of link.

    ## What it looks like
    The job trains at a fraction of its speed, and nothing is wrong: every collective waits for its slowest link.

    ## Why it happens
    NVLinks are down, PCIe runs with fewer lanes than it has, or direct access between the GPUs is off, and NCCL
    goes through the host's memory.

    ## How we know
    `nvidia-smi topo -m` says by which link the GPUs are joined. `keepstep check collectives` summed over every pair of
    torch ranks, and once more over the slow ones, alone. Both times the pair exchanged a quarter of the usual pair of
    its kind or less, or a sixteenth of what its NVLinks say (an eighth of PCIe).

    ## What to do
    Look at the state of the links, and at what NCCL says that it uses.

    ## When this is wrong
    The shares are assumed, and were not tried on hosts with several GPUs.
    """
    yield from slow_links(seen, of_gpus=True)
