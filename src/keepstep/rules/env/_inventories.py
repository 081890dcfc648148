# SPDX-License-Identifier: Apache-2.0
"""Compare the software of the processes: what most of them have, and which ones differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from keepstep.rules.api import Evidence, EvidenceSet, SoftwareSeen, listing, ranks_of
from keepstep.rules.api import ranks as say_ranks

ABSENT = "(none)"


@dataclass(frozen=True)
class InventoryDifference:
    """One item that is not the same everywhere."""

    name: str
    usual: str
    odd: tuple[tuple[str, Evidence[SoftwareSeen]], ...]
    """What each differing process has."""
    shared: bool = False
    """Whether other processes on the same hosts have the usual value."""

    @property
    def hosts(self) -> str:
        """The hosts that differ; the ranks too if other processes on these hosts do not."""
        names = listing(list(dict.fromkeys(each.fact.host for _, each in self.odd))[:4])
        if not self.shared:
            return names
        return f"{say_ranks(ranks_of(self.evidence)) or 'a process'} on {names}"

    @property
    def words(self) -> str:
        return f"{self.name} {self.odd[0][0]} (the others have {self.usual})"

    @property
    def install(self) -> str:
        """The command that removes the difference."""
        if self.usual == ABSENT:
            return f"pip uninstall -y {self.name}"
        return f"pip install '{self.name}=={self.usual}'"

    @property
    def evidence(self) -> tuple[Evidence[SoftwareSeen], ...]:
        return tuple(each for _, each in self.odd)


def differences(
    seen: EvidenceSet,
    of: Callable[[SoftwareSeen], Iterable[tuple[str, str]]],
    names: Callable[[str], bool] = lambda name: True,
) -> Iterator[InventoryDifference]:
    """Every named item in which some process differs from most."""
    everyone = seen.all(SoftwareSeen)
    if len(everyone) < 2:
        return
    tables = [(dict(of(each.fact)), each) for each in everyone]
    for name in sorted({name for table, _ in tables for name in table if names(name)}):
        values = [(table.get(name, ABSENT), each) for table, each in tables]
        counted = Counter(value for value, _ in values)
        if len(counted) > 1:
            usual = max(counted, key=lambda value: (counted[value], value != ABSENT))
            odd = tuple((value, each) for value, each in values if value != usual)
            hosts = {each.fact.host for _, each in odd}
            shared = any(each.fact.host in hosts for value, each in values if value == usual)
            yield InventoryDifference(name, usual, odd, shared)


def by_process(found: Iterable[InventoryDifference]) -> list[list[InventoryDifference]]:
    """Differences of the same processes together: each process is reported once."""
    groups: dict[tuple[int, ...], list[InventoryDifference]] = {}
    for each in found:
        groups.setdefault(tuple(id(evidence) for evidence in each.evidence), []).append(each)
    return list(groups.values())
