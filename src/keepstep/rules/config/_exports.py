# SPDX-License-Identifier: Apache-2.0
"""How the rules about launcher's variables word a fault and the command that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.cluster import Fault, VariableFaulty
from keepstep.core.finding import Fix, Found
from keepstep.core.wording import shorten


def export(name: str, value: str) -> str:
    """A line for the shell that sets a variable."""
    return f"export {name}={shlex.quote(value)}"


def faults(seen: EvidenceSet, *kinds: Fault) -> tuple[Evidence[VariableFaulty], ...]:
    return tuple(e for e in seen.all(VariableFaulty) if e.fact.fault in kinds)


def by_fault(evidence: Iterable[Evidence[VariableFaulty]]) -> list[tuple[Evidence[VariableFaulty], ...]]:
    """The same fault of the same variable in many processes is one finding."""
    groups: dict[tuple[str, Fault, str | None], list[Evidence[VariableFaulty]]] = {}
    for each in evidence:
        fact = each.fact
        groups.setdefault((fact.variable, fact.fault, fact.value), []).append(each)
    return [tuple(group) for group in groups.values()]


def found(group: tuple[Evidence[VariableFaulty], ...], because: str, *fixes: Fix) -> Found:
    """What to say of one fault."""
    fact = group[0].fact
    value = f": {shorten(fact.value, 60)}" if fact.value else ""
    how = "set it so" if fact.sure else "set it so, with what is right for this process"
    mend = (Fix(do=how, command=export(fact.variable, fact.better)),) if fact.better else ()
    return Found(
        title=f"{fact.variable} {fact.fault.value}{value}",
        because=because,
        evidence=group,
        fixes=(*mend, *fixes),
    )
