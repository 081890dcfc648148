# SPDX-License-Identifier: Apache-2.0
"""CFG007: processes announced themselves as the same rank while other ranks never came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.training import StepSeen
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.questions.processes import once_a_line


@rule(
    id="CFG007",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(WorldSeen,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.PREEMPTION_SIGTERM, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW),
)
def announced_twice(seen: EvidenceSet) -> Iterator[Found]:
    """Processes announced themselves as the same rank, while others of the same world never came.

    ## What it looks like
    `GLOBAL_RANK: 1, MEMBER: 2/4` twice or more, no line for some of the others, and no step of training.

    ## Why it happens
    The launcher started another number of processes than the trainer counts: `--ntasks` of Slurm against
    `devices` and `num_nodes`, two launchers on top of each other, or rank variables that were inherited.

    ## How we know
    The processes say who they are and how large their world is; the lists do not add up, and nothing followed.

    ## What to do
    Start exactly one process a rank, and let one place decide their number.

    ## When this is wrong
    The log holds the output of several attempts, or only of some hosts.
    """
    told = once_a_line(e for e in seen.all(WorldSeen) if e.fact.index is not None and (e.fact.size or 0) > 1)
    if not told or seen.all(StepSeen):
        return
    size = max(e.fact.size or 0 for e in told)
    often = Counter(e.fact.index for e in told)
    twice = [index for index, count in often.items() if count > 1 and index is not None]
    writers: dict[int | None, set[tuple[str, str]]] = {}
    for each in told:
        writers.setdefault(each.fact.index, set()).add((each.origin.source, each.origin.stream))
    by_several = any(len(of) > 1 for of in writers.values())
    if not twice or len(often) >= size or (len(told) < size and not by_several):
        return
    yield Found(
        title=f"{ranks(twice)} came more than once, and {size - len(often)} of {size} ranks never did",
        because="the launcher started another set of processes than the trainer counts",
        evidence=tuple(e for e in told if e.fact.index in twice),
        ranks=(),
        fixes=(
            Fix(
                do="compare what the launcher starts with what the trainer counts",
                command="env | grep -E 'RANK|WORLD|SLURM_N'",
            ),
            Fix(do="start one process a rank: `--ntasks-per-node` equal to `devices`, `--nodes` equal to `num_nodes`"),
        ),
    )
