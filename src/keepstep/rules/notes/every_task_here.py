# SPDX-License-Identifier: Apache-2.0
"""Every task's address means this host: right only if all tasks run here."""

from __future__ import annotations

from collections.abc import Collection

from keepstep.model.facts import NodesNamed
from keepstep.model.report import Note
from keepstep.rules.api import Cause, EvidenceSet, listing
from keepstep.rules.asking.every_task_here import all_came, all_tasks_here, first_of_each, names_in


def every_task_here(seen: EvidenceSet, told: Collection[Cause]) -> Note | None:
    """The note; None where something is known about where the tasks run."""
    if Cause.CONFIG_LOCALHOST_ADDRESS in told:
        return None
    for each in first_of_each(seen):
        fact = each.fact
        if not all_tasks_here(seen, fact) or all_came(seen, fact.size) or _is_one_node(seen):
            continue
        named = listing(names_in(fact)[:3])
        where = f"has {named} for every task" if len(fact.members) > 1 else f"has the {fact.size} ranks meet at {named}"
        return Note(
            says=f"{fact.said_by} {where}, which means this host. That is right only if all of them run here: "
            "a task on another host would look for the others on its own. For several hosts:",
            command="keepstep check --write --hosts HOST_0,HOST_1",
            first=True,
        )
    return None


def _is_one_node(seen: EvidenceSet) -> bool:
    return any(e.fact.count == 1 for e in seen.all(NodesNamed))
