# SPDX-License-Identifier: Apache-2.0
"""SYN072: ranks timed out in a collective while one rank's traceback or stack shows it elsewhere."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.sync._stopping_places import RankPlace, listing, places
from keepstep.rules.sync._waiting import was

MOST_SHOWN = 8


@rule(
    id="SYN072",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(CollectiveTimeout,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_TIMEOUT_SLOW),
)
def one_rank_elsewhere(seen: EvidenceSet) -> Findings:
    """Ranks timed out in a collective, and the traceback or stack of another rank shows it outside any.

    ## What it looks like
    `Timed out waiting 1800000ms for recv operation` with a traceback that ends in `all_gather` on most ranks. One
    rank was interrupted (`KeyboardInterrupt`) or printed its stack, and was in a data loader, a lock or a file.

    ## Why it happens
    A collective ends only when every rank has joined. One rank was held up by something of its own.

    ## How we know
    The tracebacks of the ranks that timed out end in the collective. The last known place of the named rank does not,
    and it did not time out itself.

    ## What to do
    Look at the named line.

    ## When this is wrong
    A rank that was interrupted long after the others had timed out may have been elsewhere by then.
    """
    here = places(seen)
    inside = [p for p in here.values() if p.waited]
    limits = {e.who for e in seen.all(CollectiveTimeout)}
    away = [p for p in here.values() if not p.in_collective and p.rank not in limits and p.user is not None]
    if not inside or not away or len(away) > len(inside):
        return
    for side in _together(away):
        ranks = tuple(p.rank for p in side)
        yield Found(
            title=f"{say_ranks(ranks)} {was(ranks)} in {side[0].where} while {listing([inside])} timed out",
            because=f"{inside[0].where} returns only when every rank has made the call, and {say_ranks(ranks)} had not",
            evidence=tuple(p.shown for p in (*side, *inside))[:MOST_SHOWN],
            ranks=ranks,
            fixes=(
                Fix(do=f"look at what {say_ranks(ranks)} did there, and for how long"),
                Fix(do="the next time it hangs, print each rank's stack", command="py-spy dump --pid PID"),
            ),
        )


def _together(away: list[RankPlace]) -> list[list[RankPlace]]:
    found: dict[object, list[RankPlace]] = {}
    for each in sorted(away, key=lambda p: p.rank):
        found.setdefault(each.line, []).append(each)
    return list(found.values())
