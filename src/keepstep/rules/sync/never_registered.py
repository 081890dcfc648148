# SPDX-License-Identifier: Apache-2.0
"""SYN063: all processes that are seen waited at the start for one that never came."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.network import ConnectFailed
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import ranks as say_ranks

SERVICE = "the coordination service"
MOST = 2
"""More that are missing are rather processes whose logs were not given."""


@rule(
    id="SYN063",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(WorldSeen,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW),
)
def never_registered(seen: EvidenceSet) -> Iterator[Found]:
    """Every process that is seen waited to register until its limit, and one of the world is not seen at all.

    ## What it looks like
    `DEADLINE_EXCEEDED` of `CoordinationService/RegisterTask` on every process, the coordinator's own among them.

    ## Why it happens
    Registration ends when all processes have come. One was never started, died before it could connect, or the
    number of processes that all were told is larger than what was started.

    ## How we know
    The processes say who they are and how many there should be. The coordinator's own process waited too, so that
    the service was there; all but the named ones called it.

    ## What to do
    See whether the missing process was started, and compare the number of processes with what was started.

    ## When this is wrong
    The missing process did run, but its log was not given and it could not reach the coordinator.
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
        because="all processes that are seen waited for the whole number, and only the named ones are not seen",
        evidence=(*gave_up.values(), *told.values()),
        ranks=missing,
        fixes=(
            Fix(do="see that this process was started, and look at its own output"),
            Fix(
                do="compare the number of processes with what was started",
                command="env | grep -E 'NUM_PROCESSES|SLURM_N'",
            ),
        ),
    )
