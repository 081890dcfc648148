# SPDX-License-Identifier: Apache-2.0
"""CFG204: ranks of one program waited for each other at different addresses."""

from __future__ import annotations

from keepstep.model.facts import RanksArriving
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.waits_at_start import still_waiting


@rule(
    id="CFG204",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(RanksArriving,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
    ),
)
def ranks_meet_elsewhere(seen: EvidenceSet) -> Findings:
    """Ranks of one program waited for each other at different addresses.

    ## What it looks like
    The start never ends. One rank tries to reach a port where nothing listens, and the others wait for it elsewhere.

    ## Why it happens
    MASTER_ADDR or MASTER_PORT, the coordinator's address or the first address in TF_CONFIG differs between the ranks: a
    typing error, a variable that one shell did not export, or a port that every process chooses itself.

    ## How we know
    Both wait on this host at the same time, run the same script from the same folder, and each left a note of where it
    waits.

    ## What to do
    Give all ranks the same address.

    ## When this is wrong
    Two separate jobs with the same script wait at the same time, each for its own ranks.
    """
    found = [e for e in still_waiting(seen) if e.fact.elsewhere and e.fact.missing and not e.fact.twice]
    if not found:
        return
    astray = [e for e in found if e.fact.answers is False]
    fact = (astray or found)[0].fact
    others = {int(rank) for each in fact.elsewhere for rank in _AS_RANK.findall(each)}
    # rank 0 waits where it listens: the others look for it in the wrong place
    right = not astray and fact.index == 0 and fact.answers
    where = ", where nothing answers" if fact.answers is False else ""
    title = f"rank {fact.index} waits at {fact.at}{where}; other ranks of the same program wait elsewhere"
    if right and others:
        title = f"{say_ranks(sorted(others))} went to another address, not to {fact.at}, where rank 0 listens"
    yield Found(
        title=title,
        because=f"{fact.elsewhere[0]}; the ranks of one job must meet at one address",
        evidence=tuple(found[:4]),
        ranks=tuple(
            sorted(others if right and others else {e.fact.index for e in astray or found if e.fact.index is not None})
        ),
        fixes=_FIXES.get(fact.framework, ()),
    )


_AS_RANK = lazy_pattern(r" as rank (\d+) of ")
_FIXES = {
    "torch": (
        Fix(do="compare the addresses that the ranks were given", command="echo $RANK $MASTER_ADDR:$MASTER_PORT"),
    ),
    "jax": (Fix(do="give jax.distributed.initialize the same coordinator_address in every process"),),
    "tensorflow": (Fix(do="give all workers the same cluster in TF_CONFIG", command="keepstep check config"),),
}
