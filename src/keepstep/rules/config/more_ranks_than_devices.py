# SPDX-License-Identifier: Apache-2.0
"""CFG116: a host has fewer devices than ranks."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, HostSeen, Severity, rule


@rule(id="CFG116", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(ClusterSeen,))
def more_ranks_than_devices(seen: EvidenceSet) -> Findings:
    """A host has fewer GPUs than the ranks that were started on it.

    ## What it looks like
    `invalid device ordinal`, or `Duplicate GPU detected` from NCCL, because two ranks share a device.

    ## Why it happens
    The number of processes was chosen for another kind of host, or CUDA_VISIBLE_DEVICES hides some GPUs.

    ## How we know
    The launcher's number of local ranks is compared with the devices that this process may use.

    ## What to do
    Start as many ranks as there are devices.

    ## When this is wrong
    Some ranks use no GPU on purpose.
    """
    for each in seen.all(ClusterSeen):
        here = next((e for e in seen.all(HostSeen) if e.rank == each.rank and e.fact.accelerators is not None), None)
        if here is None or not each.fact.local_size or (here.fact.accelerators or 0) >= each.fact.local_size:
            continue
        yield Found(
            title=f"{each.fact.local_size} ranks on {here.fact.name}, which has {here.fact.accelerators} GPUs for them",
            because="two ranks would share a device, which NCCL refuses",
            evidence=(each, here),
            severity=Severity.WARNING,
            fixes=(
                Fix(
                    do="start one rank per device",
                    command=f"torchrun --nproc-per-node={here.fact.accelerators} SCRIPT.py",
                ),
            ),
        )
        return
