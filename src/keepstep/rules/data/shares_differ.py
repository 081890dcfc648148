# SPDX-License-Identifier: Apache-2.0
"""DAT203: ranks have different numbers of batches or rows."""

from __future__ import annotations

from keepstep.base.whole_numbers import whole
from keepstep.model.facts import CollectiveTimeout, ContractBroken, ContractStated, ProcessSeen, RankDoing, RankStopped
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.stated_differences import BrokenContract, broken_contracts
from keepstep.signals.contracts import Subject


@rule(
    id="DAT203",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(ContractBroken, ContractStated),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.SYNC_COLLECTIVE_MISMATCH, Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE),
)
def shares_differ(seen: EvidenceSet) -> Findings:
    """Ranks have different numbers of batches, or of rows per batch.

    ## What it looks like
    All goes well until the rank with the smallest share is done. Then the others wait for it in a collective, for
    minutes, until a time limit.

    ## Why it happens
    Files cannot be divided evenly among the ranks, a shard is short or empty, or a rank filters its own data.

    ## How we know
    At the start of an epoch, every rank states how many batches it has and how many rows are in a batch.

    ## What to do
    Shard by rows instead of files, drop the remainder, or repeat the data and stop after a fixed number of steps.

    ## When this is wrong
    With `Join` or a fixed number of steps, the counts may differ. Then the finding is only a warning.
    """
    for each in broken_contracts(seen, Subject.BATCHES, Subject.BATCH):
        if each.subject.split(" ", 1)[0] == Subject.BATCH and [d.what for d in each.differences] != ["rows"]:
            continue
        fatal = each.subject.split(" ", 1)[0] == Subject.BATCHES and (
            _was_done_first(seen, each) or (_ended_apart(seen) and not _was_underway(seen, each))
        )
        yield Found(
            title=f"ranks have different shares of the data: {each.words}",
            because=f"each rank stated its share; the smallest is that of {say_ranks(_with_least(each))}",
            evidence=each.evidence,
            ranks=_with_least(each),
            severity=None if fatal else Severity.WARNING,
            fixes=(
                Fix(
                    do="give every rank the same number of batches", code="DistributedSampler(dataset, drop_last=True)"
                ),
                Fix(do="or end every rank after the same number of steps", code="for batch in islice(loader, steps):"),
                Fix(
                    do="with tf.data, shard by rows",
                    code="options.experimental_distribute.auto_shard_policy = "
                    "tf.data.experimental.AutoShardPolicy.DATA",
                ),
            ),
        )
        return


def _ended_apart(seen: EvidenceSet) -> bool:
    """Whether ranks failed, or waited for one that was done."""
    if seen.broken or bool(seen.all(RankStopped)) or bool(seen.all(CollectiveTimeout)):
        return True
    if any(e.fact.still for e in seen.all(ProcessSeen)):
        return True
    steps = {e.fact.steps for e in seen.all(RankDoing)}
    ended = {e.fact.phase == "end" for e in seen.all(RankDoing)}
    return len(steps) > 1 and len(ended) > 1


def _was_underway(seen: EvidenceSet, each: BrokenContract) -> bool:
    """Whether every rank with the smallest share was still working on it: then something else ended the run."""
    least = _with_least(each)
    share = _share(each, least)
    steps = [e.fact.steps for e in seen.all(RankDoing) if e.who in least]
    return share > 1 and bool(steps) and all(0 < done % share < share - 1 for done in steps)


def _was_done_first(seen: EvidenceSet, each: BrokenContract) -> bool:
    """Whether the rank with the smallest share had used it up while its peers were in another collective."""
    if not broken_contracts(seen, Subject.COLLECTIVE):
        return False
    least = _with_least(each)
    share = _share(each, least)
    steps = [e.fact.steps for e in seen.all(RankDoing) if e.who in least]
    return share == 0 or any(share > 0 and done > 0 and done % share == 0 for done in steps)


def _share(each: BrokenContract, least: tuple[int, ...]) -> int:
    return min(
        (
            int(value)
            for value, ranks in each.differences[0].values
            if whole(value) is not None and set(ranks) & set(least)
        ),
        default=-1,
    )


def _with_least(each: BrokenContract) -> tuple[int, ...]:
    values = each.differences[0].values
    numbers = [(int(value), ranks) for value, ranks in values if whole(value.removeprefix("-")) is not None]
    return min(numbers)[1] if len(numbers) == len(values) else each.odd
