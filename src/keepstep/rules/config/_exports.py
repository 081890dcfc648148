# SPDX-License-Identifier: Apache-2.0
"""How the rules about launchers' variables word a fault and the command that fixes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from keepstep.rules.api import Evidence, EvidenceSet, Fault, Fix, Found, VariableFaulty, shorten


def export(name: str, value: str) -> str:
    """A shell line that sets a variable."""
    return f"export {name}={shlex.quote(value)}"


def faults(seen: EvidenceSet, *kinds: Fault) -> tuple[Evidence[VariableFaulty], ...]:
    return tuple(e for e in seen.all(VariableFaulty) if e.fact.fault in kinds)


def by_fault(evidence: Iterable[Evidence[VariableFaulty]]) -> list[tuple[Evidence[VariableFaulty], ...]]:
    """Groups by fault: the same fault of the same variable in many processes is one finding."""
    groups: dict[tuple[str, Fault, str | None], list[Evidence[VariableFaulty]]] = {}
    for each in evidence:
        fact = each.fact
        groups.setdefault((fact.variable, fact.fault, fact.value), []).append(each)
    return [tuple(group) for group in groups.values()]


def found(group: tuple[Evidence[VariableFaulty], ...], because: str, *fixes: Fix) -> Found:
    """The finding for one fault."""
    fact = group[0].fact
    value = f": {shorten(fact.value, 60)}" if fact.value else ""
    how = "set the variable" if fact.sure else "set the variable, with the value that is right for this process"
    better = (Fix(do=how, command=export(fact.variable, fact.better)),) if fact.better else ()
    return Found(
        title=f"{fact.variable} {fact.fault.value}{value}", because=because, evidence=group, fixes=(*better, *fixes)
    )
