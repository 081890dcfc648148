# SPDX-License-Identifier: Apache-2.0
"""SYN061: at the start ranks waited for others to join, and the log ends there."""

from __future__ import annotations

from keepstep.model.facts import PeerAwaited, StepSeen, WorldSeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, everyone, rule
from keepstep.rules.network.never_answered import interrupted, trained_before

OFTEN = 2
"""Many healthy starts print the first message after some seconds; few print a second one."""


@rule(
    id="SYN061",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(PeerAwaited, WorldSeen),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
)
def start_never_complete(seen: EvidenceSet) -> Findings:
    """Ranks waited for the others to join the process group, and the log ends there.

    ## What it looks like
    `Waiting in store based barrier to initialize process group for rank: 1 ... (world_size=4, worker_count=1)`,
    repeated, as the last message; or Lightning's `initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/8` from some
    ranks only.

    ## Why it happens
    Fewer processes were started than the world size says, some of them died or wait elsewhere (on a lock, a
    download, or one rank that prepares data), or they cannot reach the store.

    ## How we know
    The ranks reached the store and count how many joined; the count never reaches the world size.

    ## What to do
    Count the processes on every host and compare with the world size; find out where the missing ones are.

    ## When this is wrong
    The log was cut while the others were still starting.
    """
    waits = [e for e in seen.all(PeerAwaited) if e.fact.peer is None and not e.fact.connected]
    waits = [e for e in waits if not seen.survived(e) and not trained_before(seen, e)]
    if len(waits) < OFTEN or not any(seen.is_last_word(e) or interrupted(seen, e) for e in waits):
        yield from _few_came(seen)
        return
    yield Found(
        title="ranks waited for the others to join, and they never did",
        because="not every rank reached the barrier at the start, and the log ends there",
        evidence=tuple(waits[:6]),
        ranks=_only_one_absent(max((e.fact.world or 0 for e in waits), default=0), {e.who for e in waits}),
        fixes=(
            Fix(do="count the processes on every host and compare with the world size", command="pgrep -af train"),
            Fix(do="print where every rank is stuck", command="keepstep why --live"),
        ),
    )


def _only_one_absent(world: int, waiting: set[int | None]) -> tuple[int, ...]:
    """The only rank of the world that does not wait; where several do not, some may wait in logs we were not given."""
    absent = set(everyone(world)) - waiting
    return tuple(absent) if len(absent) == 1 else ()


def _few_came(seen: EvidenceSet) -> Findings:
    """Some ranks of a world said who they are, and the log ends there."""
    told = [e for e in seen.all(WorldSeen) if e.fact.index is not None and (e.fact.size or 0) > 1]
    came = {e.fact.index for e in told}
    size = seen.world_size or 0
    if not told or seen.broken or seen.all(StepSeen) or {e.fact.size for e in told} != {size} or len(came) >= size:
        return
    if len({e.origin.source for e in told}) > 1 or not any(seen.is_last_word(e, within=0) for e in told):
        return
    yield Found(
        title=f"only {len(came)} of {size} ranks arrived, and then the log ends",
        because="each rank prints its number before it waits for the others, and the log ends in that wait",
        evidence=tuple(told[:6]),
        ranks=_only_one_absent(size, {*came}),
        fixes=(
            Fix(
                do="start as many processes as the world size says, over all hosts",
                command="echo $SLURM_NTASKS $WORLD_SIZE",
            ),
            Fix(do="print where every rank is stuck", command="keepstep why --live"),
        ),
    )
