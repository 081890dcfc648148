# SPDX-License-Identifier: Apache-2.0
"""CFG007: several processes announced themselves as the same rank, while other ranks never appeared."""

from __future__ import annotations

from collections import Counter

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, StepSeen, WorldSeen, ranks, rule
from keepstep.rules.asking.process_endings import once_a_line


@rule(
    id="CFG007",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(WorldSeen,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.PREEMPTION_SIGTERM, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW),
)
def announced_twice(seen: EvidenceSet) -> Findings:
    """Several processes announced themselves as the same rank, while other ranks of the same world never appeared.

    ## What it looks like
    `GLOBAL_RANK: 1, MEMBER: 2/4` appears twice or more, some ranks have no such line, and no training step follows.

    ## Why it happens
    The launcher started a different number of processes than the trainer counts: Slurm's `--ntasks` does not match
    `devices` and `num_nodes`, two launchers are nested, or rank variables were inherited.

    ## How we know
    The processes say which rank they are and how large their world is. The numbers do not add up, and no step followed.

    ## What to do
    Start exactly one process per rank, and set their number in one place.

    ## When this is wrong
    The log holds the output of several attempts, or of only some hosts.
    """
    said = once_a_line(e for e in seen.all(WorldSeen) if e.fact.index is not None and (e.fact.size or 0) > 1)
    if not said or seen.all(StepSeen):
        return
    size = max(e.fact.size or 0 for e in said)
    often = Counter(e.fact.index for e in said)
    twice = [index for index, count in often.items() if count > 1 and index is not None]
    writers: dict[int | None, set[tuple[str, str]]] = {}
    for each in said:
        writers.setdefault(each.fact.index, set()).add(each.origin.writer)
    by_several = any(len(of) > 1 for of in writers.values())
    if not twice or len(often) >= size or (len(said) < size and not by_several):
        return
    yield Found(
        title=f"{ranks(twice)} appeared more than once, and {size - len(often)} of {size} ranks never did",
        because="the launcher started a different set of processes than the trainer expects",
        evidence=tuple(e for e in said if e.fact.index in twice),
        ranks=(),
        fixes=(
            Fix(
                do="compare what the launcher starts with what the trainer expects",
                command="env | grep -E 'RANK|WORLD|SLURM_N'",
            ),
            Fix(do="start one process per rank: `--ntasks-per-node` as `devices`, `--nodes` as `num_nodes`"),
        ),
    )
