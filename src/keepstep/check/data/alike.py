# SPDX-License-Identifier: Apache-2.0
"""Files with the same content: by size and hash, and where the hash is short, by comparing the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from keepstep.check.data.source import is_remote
from keepstep.check.data.units import Looked, Unit
from keepstep.core.evidence import Evidence, Origin
from keepstep.core.facts.base import Fact
from keepstep.core.facts.shards import ShardsAlike
from keepstep.core.private_files import open_regular
from keepstep.core.wording import listing, size

SMALLEST = 64
"""Files below this many bytes are alike by chance."""
MOST_GROUPS = 1_000
MOST_NAMED = 10


class Alike:
    """Takes one result after the other. Memory: one number per file."""

    def __init__(self) -> None:
        self._first: dict[int, Unit] = {}
        self._groups: dict[int, list[Unit]] = {}
        self._records: dict[int, int | None] = {}

    def add(self, unit: Unit, looked: Looked) -> None:
        if unit.size < SMALLEST or ":" not in looked.digest or len(looked.bad) or not looked.data:
            return
        key = hash((unit.size, looked.digest))
        if key not in self._first:
            self._first[key] = unit
        elif key in self._groups or len(self._groups) < MOST_GROUPS:
            self._groups.setdefault(key, [self._first[key]]).append(unit)
            self._records[key] = looked.records

    def evidence(self) -> Iterator[Evidence[Fact]]:
        """One piece for each group of files that are alike."""
        for key, units in self._groups.items():
            same = [units[0], *(unit for unit in units[1:] if _is_same(units[0].path, unit.path))]
            if len(same) < 2:
                continue
            names = tuple(sorted(unit.path for unit in same))
            fact = ShardsAlike(
                files=names[:MOST_NAMED],
                size_bytes=same[0].size,
                records=self._records[key],
                more=max(0, len(names) - MOST_NAMED),
            )
            quote = f"the same {size(fact.size_bytes)} as {listing(names[1:4])}"
            yield Evidence(fact=fact, origin=Origin(source=names[0]), quote=quote)


def _is_same(one: str, other: str) -> bool:
    """Whether two files have the same bytes. Of remote ones the hash has to do."""
    if is_remote(one) or is_remote(other):
        return True
    with suppress(OSError), open_regular(one) as first, open_regular(other) as second:
        while True:
            some = first.read(1 << 20)
            if some != second.read(1 << 20):
                return False
            if not some:
                return True
    return False
