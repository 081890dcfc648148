# SPDX-License-Identifier: Apache-2.0
"""What a plan would run into, as facts. Rules say what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keepstep.check.data.labels import Labels, joined
from keepstep.check.data.plan.types import AtEnd, Parts, Plan, Share
from keepstep.model.facts.base import Fact
from keepstep.model.facts.plan import (
    BatchesUneven,
    LabelsSkewed,
    LoaderRefuses,
    RecordsRepeated,
    RecordsUnseen,
    ShareEmpty,
    StepsUneven,
    WorkersIdle,
)

MOST_NAMED = 32
"""Ranks named in one fact."""
SKEW_RATIO = 5.0
"""A label is skewed if one rank has this many times the share of it that all records have, or none of it."""
LEAST_OF_A_LABEL = 20
"""Per rank, on average: fewer say nothing."""


def problems_of(plan: Plan) -> Iterator[Fact]:
    """Everything that is wrong with a plan, the worst first."""
    split = plan.split
    if split.refusal is not None:
        yield LoaderRefuses(
            policy=plan.policy,
            message=split.refusal,
            ranks=split.refusing[:MOST_NAMED] or tuple(range(plan.asked.ranks))[:MOST_NAMED],
            files=len(plan.asked.files),
            readers=plan.asked.ranks * plan.asked.readers,
        )
    yield from _of_steps(plan)
    if plan.repeats:
        yield RecordsRepeated(
            policy=plan.policy,
            records=plan.records,
            repeats=plan.repeats,
            shared=split.shared,
            ranks=plan.asked.ranks,
            padding=split.parts is Parts.PADDED,
        )
    if plan.unseen:
        yield RecordsUnseen(
            policy=plan.policy,
            records=plan.records,
            unseen=plan.unseen,
            dropped=sum(each.dropped for each in plan.shares),
        )
    idle = {each.rank: each.idle for each in plan.shares if each.idle}
    if idle:
        yield WorkersIdle(
            policy=plan.policy,
            idle=sum(idle.values()),
            workers=plan.asked.readers * plan.asked.ranks,
            files=len(plan.asked.files) if split.by_file else None,
        )
    yield from _of_labels(plan)


def _of_steps(plan: Plan) -> Iterator[Fact]:
    empty = tuple(each.rank for each in plan.shares if not each.records)
    if empty and plan.records:
        yield ShareEmpty(
            policy=plan.policy,
            empty=empty[:MOST_NAMED],
            count=len(empty),
            of=plan.asked.ranks,
            files=len(plan.asked.files),
            by_file=plan.split.by_file,
        )
    least, most = min(plan.steps), max(plan.steps)
    if least < most:
        short = tuple(each.rank for each in plan.shares if each.steps == least)
        yield StepsUneven(
            policy=plan.policy,
            least=least,
            most=most,
            short=short[:MOST_NAMED],
            count=len(short),
            of=plan.asked.ranks,
            hangs=plan.split.at_end is AtEnd.HANGS,
        )
    last = tuple((each.rank, each.last_rows) for each in plan.shares if each.last_rows is not None)
    sizes = {rows for _, rows in last}
    first = {max(each.rows) for each in plan.shares if each.rows}
    if least == most and least and (len(sizes) > 1 or sizes - first or len(first) > 1):
        yield BatchesUneven(
            policy=plan.policy,
            step=most,
            batch=plan.asked.batch,
            rows=tuple(rows for _, rows in last)[:MOST_NAMED],
            differ=len(sizes) > 1,
        )


def _of_labels(plan: Plan) -> Iterator[Fact]:
    """The first label that a rank has far too many or none of. What is shuffled is spread by chance."""
    every = [each.labels for each in plan.asked.files]
    known = [each for each in every if each is not None]
    if plan.split.shuffled or plan.split.refusal is not None or len(known) < len(every):
        return
    labels = joined(known)
    total = Counter(labels.codes)
    per_rank = {share.rank: _labels_of(share, labels) for share in plan.shares if share.records}
    for code, label in enumerate(labels.names):
        if total[code] < LEAST_OF_A_LABEL * plan.asked.ranks:
            continue
        usual = total[code] / len(labels.codes)
        for rank, counts in per_rank.items():
            own = counts[code] / counts.total()
            if own == 0 or own > SKEW_RATIO * usual:
                yield LabelsSkewed(
                    policy=plan.policy, label=label, of_rank=rank, share=own, usual=usual, by_file=plan.split.by_file
                )
                return


def _labels_of(share: Share, labels: Labels) -> Counter[int]:
    found: Counter[int] = Counter()
    for run in (run for stream in share.streams for run in stream):
        found.update(labels.codes[run.start : run.stop : run.step])
    return found
