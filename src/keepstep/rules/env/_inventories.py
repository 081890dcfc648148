# SPDX-License-Identifier: Apache-2.0
"""Compare the software of processes: what most have, and who has something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.software import SoftwareSeen
from keepstep.core.wording import listing

ABSENT = "(not there)"


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same everywhere."""

    name: str
    usual: str
    odd: tuple[tuple[str, Evidence[SoftwareSeen]], ...]
    """What each of the others has."""

    @property
    def hosts(self) -> str:
        return listing(list(dict.fromkeys(each.fact.host for _, each in self.odd))[:4])

    @property
    def evidence(self) -> tuple[Evidence[SoftwareSeen], ...]:
        return tuple(each for _, each in self.odd)


def differences(
    seen: EvidenceSet, of: Callable[[SoftwareSeen], Iterable[tuple[str, str]]], names: Callable[[str], bool] = lambda name: True
) -> Iterator[Difference]:
    """Every named thing that some process has otherwise than most."""
    everyone = seen.all(SoftwareSeen)
    if len(everyone) < 2:
        return
    tables = [(dict(of(each.fact)), each) for each in everyone]
    for name in sorted({name for table, _ in tables for name in table if names(name)}):
        values = [(table.get(name, ABSENT), each) for table, each in tables]
        counted = Counter(value for value, _ in values)
        if len(counted) > 1:
            usual = max(counted, key=lambda value: (counted[value], value != ABSENT))
            yield Difference(name, usual, tuple((value, each) for value, each in values if value != usual))
