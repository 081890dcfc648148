# SPDX-License-Identifier: Apache-2.0
"""CFG014: the launcher started fewer processes than the program waits for."""

from __future__ import annotations

from keepstep.model.facts import (
    ConnectFailed,
    Fact,
    NodeSeen,
    PeerAwaited,
    ProcessesStarted,
    RendezvousTimeout,
    StepSeen,
    WorldSeen,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
)

_OF_JAX = lazy_pattern(r"(?i)\bjax\b|coordination|RegisterTask")
"""JAX has one process per task; other launchers start more below each."""


@rule(
    id="CFG014",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(ProcessesStarted,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.EXCEPTION,
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.TPU_INITIALIZATION_FAILURE,
    ),
)
def fewer_started(seen: EvidenceSet) -> Findings:
    """The launcher started fewer processes than the program waits for.

    ## What it looks like
    JAX connects as process 0 of 8 and gives up after five minutes. The job was submitted with `replicas=1`, with
    `--ntasks=1`, or srun says `can't run 1 processes on 8 nodes, setting nnodes to 1`.

    ## Why it happens
    The request names a slice or a number of nodes with several hosts, but only one task.

    ## How we know
    The launcher says how many it starts, the process how many it waits for, and no other process wrote anything.

    ## What to do
    Ask for one task per host.

    ## When this is wrong
    The others were started by another command, whose output we were not given.
    """
    started = seen.all(ProcessesStarted)
    worlds = [e for e in seen.all(WorldSeen) if (e.fact.size or 0) > 1]
    waited: list[Evidence[Fact]] = [
        e for kind in (RendezvousTimeout, ConnectFailed, PeerAwaited) for e in seen.all(kind) if not seen.survived(e)
    ]
    if not started or not worlds or not waited or seen.all(StepSeen):
        return
    count, size = max(e.fact.count for e in started), min(e.fact.size or 0 for e in worlds)
    indices = {e.fact.index for e in worlds if e.fact.index is not None} | set(seen.ranks)
    several = any((e.fact.per_node or 1) > 1 for e in seen.all(NodeSeen))
    of_jax = any(_OF_JAX.search(e.quote) for e in (*worlds, *waited))
    if count >= size or several or not of_jax or max(indices, default=0) >= count:
        return
    by = next(e.fact.by for e in started if e.fact.count == count) or "the launcher"
    yield Found(
        title=f"{by} started {count} of the {size} processes that the program waits for",
        because=f"the request says {count}, the program is one of {size}, and no other process wrote anything",
        evidence=(*started[:2], *worlds[:2], *waited[:3]),
        ranks=(),
        fixes=(
            Fix(do="ask for one task per host", command=f"srun --nodes={size} --ntasks-per-node=1 python train.py"),
        ),
    )
