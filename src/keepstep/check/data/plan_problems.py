# SPDX-License-Identifier: Apache-2.0
"""What a plan would run into, as facts. Rules say what they mean."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.check.data.plan_runs import whole_files
from keepstep.check.data.plan_types import AtEnd, Parts, Plan
from keepstep.core.facts.base import Fact
from keepstep.core.facts.plan import (
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
    """Labels that a rank has far too many or none of. Only whole files have known labels."""
    files = plan.asked.files
    if not plan.split.by_file or plan.split.refusal is not None or any(each.labels is None for each in files):
        return
    owner = {run: share.rank for share in plan.shares for stream in share.streams for run in stream}
    per_rank: dict[int, dict[str, int]] = {}
    total: dict[str, int] = {}
    for each, run in zip(files, whole_files([file.records for file in files]), strict=True):
        for label, number in (each.labels or {}).items():
            total[label] = total.get(label, 0) + number
            if run in owner:
                counts = per_rank.setdefault(owner[run], {})
                counts[label] = counts.get(label, 0) + number
    for label, number in sorted(total.items()):
        if number < LEAST_OF_A_LABEL * plan.asked.ranks:
            continue
        usual = number / sum(total.values())
        for rank, counts in sorted(per_rank.items()):
            own = counts.get(label, 0) / max(sum(counts.values()), 1)
            if own == 0 or own > SKEW_RATIO * usual:
                yield LabelsSkewed(policy=plan.policy, label=label, of_rank=rank, share=own, usual=usual)
                return
