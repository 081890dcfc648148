# SPDX-License-Identifier: Apache-2.0
"""CFG203: two processes arrived as the same rank."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, RanksArriving, listing, rule
from keepstep.rules.asking.fallout import FALLOUT


@rule(
    id="CFG203",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(RanksArriving,),
    explains=(
        *FALLOUT,
        Cause.NETWORK_PORT_IN_USE,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        Cause.USER_CODE_EXCEPTION,
    ),
)
def rank_came_twice(seen: EvidenceSet) -> Findings:
    """Two processes have the same rank or task.

    ## What it looks like
    `Address already in use` from the second process, `different incarnation` from a coordination service, or a start
    that never ends because another rank is missing instead.

    ## Why it happens
    RANK, `process_id` or the index in TF_CONFIG was copied without changing it, or a job was started twice.

    ## How we know
    Both processes came to the same address on this host as the same rank, while both were alive. The guard recorded it
    when the second one arrived.

    ## What to do
    Give every process its own index, counting from 0.

    ## When this is wrong
    The first process belongs to a run that should be over. Then end it.
    """
    found = [e for e in seen.all(RanksArriving) if e.fact.twice]
    if not found:
        return
    fact = found[0].fact
    what = f"task {fact.index}" if fact.framework == "tensorflow" else f"rank {fact.index}"
    yield Found(
        title=f"{what} of {fact.size} arrived twice at {fact.at}: processes {listing(str(pid) for pid in fact.twice)}",
        because="each rank must be one process; the second cannot join, and another rank is missing instead",
        evidence=tuple(found[:4]),
        ranks=(fact.index,) if fact.index is not None else (),
        fixes=_FIXES.get(fact.framework, ()),
    )


_FIXES = {
    "torch": (Fix(do="give every process its own RANK", command="torchrun --nproc-per-node N train.py"),),
    "jax": (
        Fix(
            do="give every process its own process_id, from 0 to num_processes - 1",
            command="keepstep run -n N -- python train.py",
        ),
    ),
    "tensorflow": (
        Fix(
            do="give every worker its own index in TF_CONFIG",
            command="keepstep check config --write --hosts HOST1,HOST2",
        ),
    ),
}
