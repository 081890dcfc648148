# SPDX-License-Identifier: Apache-2.0
"""Files with the same content: by size and hash. Where the hash is short, the files are read again for a long one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from keepstep.base.wording import listing, size
from keepstep.check.data.units import HASH_ONLY, DataUnit, UnitRead
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.shards import ShardsAlike

SMALLEST = 64
"""Files below this many bytes are alike by chance."""
MOST_GROUPS = 1_000
MOST_NAMED = 10
MOST_HASHED = 10_000
"""Files that are read again."""
_LONG = "blake2b:"


@dataclass
class _Group:
    """Files with the same content, in their order."""

    size_bytes: int
    records: int | None
    names: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, name: str) -> None:
        if len(self.names) < MOST_NAMED:
            self.names.append(name)
        else:
            self.more += 1


class Alike:
    """Takes one result after the other. Memory: one number per file, in the order of the files."""

    def __init__(self, files: int) -> None:
        self._keys = array("q", bytes(8 * files))
        self._groups: dict[int, _Group] = {}
        self.left_out = 0
        """Files that may be copies, but were too many to compare."""

    def add(self, unit: DataUnit, looked: UnitRead) -> None:
        if unit.size >= SMALLEST and ":" in looked.digest and not len(looked.bad) and looked.data:
            self._keys[unit.number] = _key(unit, looked.digest)

    def evidence(
        self,
        counted: Iterable[tuple[DataUnit, int | None]],
        hashed: Callable[[list[DataUnit]], Iterable[tuple[DataUnit, UnitRead]]],
    ) -> Iterator[Evidence[Fact]]:
        """One piece for each group. ``counted``: all files with their records; ``hashed`` reads some again."""
        if not (twice := self._twice()):
            return
        again: list[DataUnit] = []
        numbers: dict[int, int | None] = {}
        for unit, records in counted:
            key = self._keys[unit.number]
            if key not in twice:
                continue
            if key & 1:
                self._take(key, unit, records)
            elif len(again) < MOST_HASHED:
                again.append(replace(unit, kind=HASH_ONLY))
                numbers[unit.number] = records
            else:
                self.left_out += 1
        for unit, looked in hashed(again) if again else ():
            if looked.digest.startswith(_LONG):
                self._take(_key(unit, looked.digest), unit, numbers[unit.number])
        yield from (_evidence(group) for group in self._groups.values() if len(group.names) > 1)

    def _twice(self) -> set[int]:
        """Keys that more than one file has."""
        found, before = set(), 0
        for key in sorted(self._keys):
            if key == before != 0:
                found.add(key)
            before = key
        return found

    def _take(self, key: int, unit: DataUnit, records: int | None) -> None:
        if key in self._groups or len(self._groups) < MOST_GROUPS:
            self._groups.setdefault(key, _Group(unit.size, records)).add(unit.path)


def _key(unit: DataUnit, digest: str) -> int:
    """Odd if the hash is long enough to prove that two files are the same; never 0."""
    return hash((unit.size, digest)) >> 2 << 2 | 2 | digest.startswith(_LONG)


def _evidence(group: _Group) -> Evidence[Fact]:
    names = sorted(group.names)
    fact = ShardsAlike(files=tuple(names), size_bytes=group.size_bytes, records=group.records, more=group.more)
    quote = f"the same {size(fact.size_bytes)} as {listing(names[1:4])}"
    rest = len(names) + group.more - 4
    return Evidence(
        fact=fact, origin=Origin(source=names[0]), quote=quote + (f" and {rest:,} more" if rest > 0 else "")
    )
