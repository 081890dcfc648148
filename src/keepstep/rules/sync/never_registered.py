# SPDX-License-Identifier: Apache-2.0
"""SYN063: at the start all known processes waited for one that never arrived."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, WorldSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks

SERVICE = "the coordination service"
MOST = 2
"""If more are missing, we were probably just not given their logs."""


@rule(
    id="SYN063",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(WorldSeen,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW),
)
def never_registered(seen: EvidenceSet) -> Findings:
    """Every known process waited to register until its time limit, and one process of the world is missing.

    ## What it looks like
    `DEADLINE_EXCEEDED` from `CoordinationService/RegisterTask` on every process, including the coordinator's own.

    ## Why it happens
    Registration ends when all processes have registered. One was never started, died before it could connect, or
    the configured number of processes is larger than the number that was started.

    ## How we know
    The processes say who they are and how many there should be. The coordinator's own process waited too, so
    the service was up; all but the named ones called it.

    ## What to do
    Check whether the missing process was started, and compare the configured number of processes with it.

    ## When this is wrong
    The missing process did run, but we were not given its log, and it could not reach the coordinator.
    """
    told: dict[int, Evidence[WorldSeen]] = {}
    for each in seen.all(WorldSeen):
        if each.fact.index is not None and (each.fact.size or 0) > 1:
            told.setdefault(each.fact.index, each)
    gave_up = {e.who: e for e in seen.all(ConnectFailed) if e.fact.peer == SERVICE and not seen.survived(e)}
    size = seen.world_size or 0
    missing = tuple(rank for rank in range(min(size, 4096)) if rank not in told)
    if 0 not in gave_up or set(gave_up) != set(told) or not 0 < len(missing) <= MOST:
        return
    yield Found(
        title=f"{say_ranks(missing)} of {size} never registered; {say_ranks(tuple(told))} waited in vain",
        because=f"all known processes waited for registration to complete; only {say_ranks(missing)} left no log",
        evidence=(*gave_up.values(), *told.values()),
        ranks=missing,
        fixes=(
            Fix(do="check that this process was started, and look at its output"),
            Fix(
                do="compare the configured number of processes with what was started",
                command="env | grep -E 'NUM_PROCESSES|SLURM_N'",
            ),
        ),
    )
