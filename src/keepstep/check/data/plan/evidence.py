# SPDX-License-Identifier: Apache-2.0
"""A plan as evidence: its problems for the rules, its shares for the page, and what was looked at."""

from __future__ import annotations

from keepstep.base.wording import count
from keepstep.check.data.plan.picture import shares_seen
from keepstep.check.data.plan.types import Plan
from keepstep.check.place import Collected
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin

MOST_QUOTED = 16


def evidence_of(plan: Plan, *, values: bool = False) -> Collected:
    """Everything that a report needs to know about a plan. ``values``: whether the values of the files were read."""
    looked = Collected()
    asked = plan.asked
    where = Origin(source=f"the plan for {count(asked.ranks, 'rank')}, {plan.policy}")
    for problem in plan.problems:
        looked.add(Evidence(fact=problem, origin=where, quote=_quote(plan)))
    for share in shares_seen(plan):
        said = f"rank {share.of_rank}: {count(share.records, 'record')}, {count(share.steps, 'step')}"
        looked.add(Evidence(fact=share, origin=where, quote=said))
    looked.checked(
        f"the plan: {count(plan.records, 'record')} in {count(len(asked.files), 'file')} for"
        f" {count(asked.ranks, 'rank')}, batch {asked.batch}, {plan.policy}"
    )
    if why := _why_no_labels(plan, values):
        looked.coverage.append(Coverage(what="labels per rank", state=CoverageState.NOT_CHECKED, why=why))
    else:
        looked.checked("labels per rank")
    return looked


def _why_no_labels(plan: Plan, values: bool) -> str:
    """Why nothing is said about labels; empty: they were compared."""
    if plan.split.shuffled:
        return "the loader shuffles, which spreads them by chance"
    if not values:
        return "add --values to read them"
    without = next((each.name for each in plan.asked.files if each.labels is None), "")
    return f"no field with classes was found in {without}; name it with --label" if without else ""


def _quote(plan: Plan) -> str:
    steps = ", ".join(f"{each.steps:,}" for each in plan.shares[:MOST_QUOTED])
    more = ", ..." if len(plan.shares) > MOST_QUOTED else ""
    return f"steps per rank: {steps}{more}; {plan.overlap:,} records on several ranks, {plan.unseen:,} on none"
