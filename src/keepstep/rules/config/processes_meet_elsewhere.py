# SPDX-License-Identifier: Apache-2.0
"""CFG207: live processes of one program wait for each other at different addresses."""

from __future__ import annotations

from collections import defaultdict

from keepstep.base import wording
from keepstep.model.facts import ProcessSeen, RanksArriving
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.asking.live_jobs import LiveProcess, jobs, names


@rule(
    id="CFG207",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(ProcessSeen,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,),
)
def processes_meet_elsewhere(seen: EvidenceSet) -> Findings:
    """Live processes of one program wait for each other at different addresses, so they never meet.

    ## What it looks like
    The start never ends. Each process is in `jax.distributed.initialize`, `init_process_group` or the start of a
    strategy, and their arguments or variables name different addresses.

    ## Why it happens
    The coordinator's address, MASTER_ADDR, MASTER_PORT or the first address in TF_CONFIG differs between the processes:
    a typing error, a variable that one shell did not export, or a port that every process chooses itself.

    ## How we know
    The stacks of all processes were taken several times: each waits for the others to start, none moved, and the
    addresses in their arguments or variables differ.

    ## What to do
    Give all processes the same address.

    ## When this is wrong
    Two separate jobs with the same program start at the same time, each waiting for ranks on other hosts.
    """
    if seen.all(RanksArriving):
        return  # the guards say more: CFG204
    programs: dict[str, list[LiveProcess]] = defaultdict(list)
    for job in jobs(seen):
        for each in job:
            programs[each.process.fact.command].append(each)
    for members in programs.values():
        places: dict[str, list[LiveProcess]] = defaultdict(list)
        for each in members:
            if each.process.fact.meets is not None:
                places[each.process.fact.meets].append(each)
        if len(places) < 2 or not all(each.waits_to_start and each.process.fact.still for each in members):
            continue
        if any(
            len(there) >= (each.process.fact.world or len(there) + 1) for there in places.values() for each in there
        ):
            continue  # one of them is complete, so it waits for nobody elsewhere
        sides = wording.listing(f"{names(there)} at {place}" for place, there in list(places.items())[:4])
        yield Found(
            title=f"processes of one program wait for each other at different addresses: {sides}",
            because=f"each waits in {members[0].where} for the others to come to its own address",
            evidence=tuple(e for each in members for e in each.evidence),
            fixes=(Fix(do="give every process the same address of the coordinator or master"),),
        )
