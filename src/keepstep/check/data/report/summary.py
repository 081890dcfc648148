# SPDX-License-Identifier: Apache-2.0
"""The results of all files as evidence: counts and schemas by folder, and every bad, odd or changed file by itself."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from keepstep.base.wording import count, listing, shorten, size
from keepstep.check.data.formats import format_name
from keepstep.check.data.spool import Broken
from keepstep.check.data.units import INSTALL, DataUnit, Odd, ReadRequest, UnitRead
from keepstep.check.place import Collected
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.shards import (
    ShardBroken,
    ShardChanged,
    ShardSchema,
    ShardsSeen,
    ShardUnreadable,
    ValueRange,
    ValuesOdd,
)
from keepstep.parse.formats.data.bad import Bad

MOST_NAMED = 10_000
"""Bad files that are named; the rest is counted."""
MOST_FOLDERS = 2_000
MOST_SCHEMAS = 50
MOST_REASONS = 50
MOST_FIELDS = 1_000
MOST_SHOWN = 4
_TEXTS = ("text", "string", "large_string")

_Fields = tuple[tuple[str, str, str], ...]


@dataclass
class _Folder:
    """The files of one format in one folder."""

    files: int = 0
    records: int | None = 0
    size_bytes: int = 0
    schemas: dict[_Fields, list[Any]] = field(default_factory=dict)

    def add(self, unit: DataUnit, looked: UnitRead) -> None:
        self.files += 1
        self.size_bytes += unit.size
        self.records = None if self.records is None or looked.records is None else self.records + looked.records
        if not looked.fields or any(bad.kind == "misnamed" for bad in looked.bad.first):
            return
        key = tuple((each.name, each.dtype, each.shape) for each in looked.fields)
        if key not in self.schemas and len(self.schemas) >= MOST_SCHEMAS:
            return
        known = self.schemas.setdefault(key, [0, []])
        known[0] += 1
        if len(known[1]) < 5:
            known[1].append(unit.path)


class Summary:
    """Takes one result after the other."""

    def __init__(self, asked: ReadRequest) -> None:
        self._asked = asked
        self._looked = Collected()
        self._folders: dict[tuple[str, str], _Folder] = {}
        self._not_named = self._others = self._named = 0
        self._unread: dict[tuple[str, str], list[Any]] = {}
        self._libraries: Counter[tuple[str, str]] = Counter()
        self._unprotected: Counter[str] = Counter()
        self._ranges: dict[str, tuple[int, int]] = {}
        self.longest: dict[tuple[str, str], int] = {}
        """By the name of a field and what was counted: the most that a record has."""
        self.broken = Broken()

    def add(self, unit: DataUnit, looked: UnitRead) -> None:
        """One result."""
        name = format_name(looked.format)
        if looked.unreadable:
            self._fact(unit, ShardUnreadable(file=unit.path, why=looked.unreadable), looked.unreadable)
            return
        if looked.missing_library:
            self._libraries[(name, looked.missing_library)] += 1
            return
        if looked.unread:
            self._not_read(name, looked.unread, unit.path)
            if not len(looked.bad):
                return
        if not looked.data:
            self._others += 1
            return
        self._folder(unit, looked.format).add(unit, looked)
        self._longest(looked)
        if not looked.protected and not len(looked.bad):
            self._unprotected[name] += 1
        if len(looked.bad):
            self.broken.add(unit, looked)
            for number, bad in enumerate(looked.bad.first):
                self._bad(unit, looked, bad, looked.bad.more if number == 0 else 0)
        for odd in looked.odd:
            self._odd(unit, odd)

    def _longest(self, looked: UnitRead) -> None:
        for each in looked.fields:
            key = (each.name, "characters" if each.dtype in _TEXTS else "values")
            if (each.longest or 0) > 1 and (key in self.longest or len(self.longest) < MOST_FIELDS):
                self.longest[key] = max(each.longest or 0, self.longest.get(key, 0))

    def _folder(self, unit: DataUnit, format: str) -> _Folder:
        where = "" if format == "image" else _alike(os.path.dirname(unit.path))
        key = (where or unit.root, format)
        if key not in self._folders and len(self._folders) >= MOST_FOLDERS:
            key = (unit.root, format)
        return self._folders.setdefault(key, _Folder())

    def _fact(self, unit: DataUnit, fact: Fact, quote: str, line: int | None = None) -> None:
        self._named += 1
        if self._named > MOST_NAMED:
            self._not_named += 1
            return
        self._looked.add(Evidence(fact=fact, origin=Origin(source=unit.path, line=line), quote=quote))

    def _bad(self, unit: DataUnit, looked: UnitRead, bad: Bad, more: int) -> None:
        fact = ShardBroken(
            file=unit.path,
            format=format_name(looked.format),
            kind=bad.kind,
            how=bad.how,
            record=bad.record,
            offset=bad.offset,
            more=more,
        )
        self._fact(unit, fact, place_of(bad), bad.line)

    def _odd(self, unit: DataUnit, odd: Odd) -> None:
        if odd.nans or odd.infinities:
            what = [f"{odd.nans:,} NaN"] * bool(odd.nans) + [f"{odd.infinities:,} infinite"] * bool(odd.infinities)
            fact = ValuesOdd(
                file=unit.path, field=odd.field, nans=odd.nans, infinities=odd.infinities, record=odd.record
            )
            self._fact(unit, fact, f"{odd.field}: {' and '.join(what)}, first in record {odd.record}")
        if odd.low is not None and odd.high is not None:
            low, high = self._ranges.get(odd.field, (odd.low, odd.high))
            self._ranges[odd.field] = (min(low, odd.low), max(high, odd.high))
            classes = self._asked.classes
            if classes is not None and (odd.low < 0 or odd.high >= classes):
                outside = ValueRange(
                    file=unit.path, field=odd.field, low=odd.low, high=odd.high, classes=classes, record=odd.outside
                )
                self._fact(unit, outside, f"{odd.field}: {odd.low} to {odd.high}, first in record {odd.outside}")

    def changed(self, unit: DataUnit, looked: UnitRead, *, silently: bool) -> None:
        """A file whose content is not what it was."""
        fact = ShardChanged(file=unit.path, silently=silently, protected=looked.protected)
        how = "its content changed; its size and modification time did not" if silently else "it was written again"
        self._fact(unit, fact, how)

    def also(self, evidence: Evidence[Fact]) -> None:
        """Evidence about several files."""
        self._looked.add(evidence)

    def left(self, kind: str, path: str, why: str) -> None:
        """Something that was found and is no file to read."""
        if kind == "unreadable":
            self._fact(DataUnit(path), ShardUnreadable(file=path, why=why), why)
        else:
            self._not_read("", why, path)

    def _not_read(self, name: str, why: str, path: str) -> None:
        """Counted by the reason, with one example; a reason of its own for each of many files is too much."""
        key = (name, why) if (name, why) in self._unread or len(self._unread) < MOST_REASONS else ("", "other reasons")
        self._unread.setdefault(key, [0, path])[0] += 1

    def collected(self, unchanged: int) -> Collected:
        """All of it."""
        for (folder, format), found in self._folders.items():
            self._looked.add(_seen(folder, format, found))
        self._say_checked(unchanged)
        if self._unprotected:
            why = "payload unprotected: no checksums in them; later changes are noticed by the manifest's hashes"
            what = f"the payload of {listing(_files(number, name) for name, number in self._unprotected.items())}"
            self._looked.coverage.append(Coverage(what=what, state=CoverageState.NOT_CHECKED, why=why))
        left_out = self._looked.partly if self._folders else self._looked.unavailable  # nothing at all was read
        for (name, library), number in self._libraries.items():
            left_out(_files(number, name), f"install {library}: {INSTALL}")
        for (name, why), (number, path) in self._unread.items():
            what = path if number == 1 else f"{_files(number, name)}, such as {path}"
            left_out(what, why)
        if self._others:
            self._looked.coverage.append(
                Coverage(
                    what=count(self._others, "file"), state=CoverageState.NOT_CHECKED, why="no known format of data"
                )
            )
        if self._not_named:
            self._looked.partly(count(self._not_named, "further problem"), "only the first ones are listed")
        return self._looked

    def _say_checked(self, unchanged: int) -> None:
        by_format: dict[str, list[_Folder]] = defaultdict(list)
        for (_, format), found in self._folders.items():
            by_format[format].append(found)
        for format, some in by_format.items():
            numbers = [each.records for each in some]
            records = None if None in numbers else sum(each for each in numbers if each is not None)
            told = [count(records, "record")] if records is not None else []
            if total := sum(each.size_bytes for each in some):  # a server may not say it
                told.append(size(total))
            files = _files(sum(each.files for each in some), format_name(format))
            self._looked.checked(f"{files} ({', '.join(told)})" if told else files)
        for name, (low, high) in self._ranges.items():
            self._looked.checked(f"{name} ({low:,} to {high:,})")
        if self.longest:
            most = sorted(self.longest.items(), key=lambda each: -each[1])[:MOST_SHOWN]
            longest = listing(f"{shorten(name, 40)} {length:,} {unit}" for (name, unit), length in most)
            self._looked.checked(f"the length of each record (the longest: {longest})")
        if unchanged and by_format:
            self._looked.checked(f"the manifest ({count(unchanged, 'file')} unchanged and not read again)")


def _files(number: int, name: str) -> str:
    return count(number, f"{name} file" if name else "file")


def _alike(folder: str) -> str:
    """A folder's name without the parts that only number it or name a partition: `date=2024-01-01`, `0007`."""
    parts = folder.split("/")
    while parts and ("=" in parts[-1] or (parts[-1].isdecimal() and len(parts) > 1)):
        parts.pop()
    return "/".join(parts) or folder


def place_of(bad: Bad) -> str:
    """``record 17 at byte 88,120: its data is wrong (CRC)``."""
    where = [f"record {bad.record:,}"] if bad.record is not None else []
    where += [bad.part] if bad.part else []
    where += [f"at byte {bad.offset:,}"] if bad.offset is not None else []
    return f"{' '.join(where)}: {bad.how}" if where else bad.how


def _seen(folder: str, format: str, found: _Folder) -> Evidence[Fact]:
    schemas = tuple(
        ShardSchema(fields=key, files=number, examples=tuple(examples))
        for key, (number, examples) in found.schemas.items()
    )
    fact = ShardsSeen(
        folder=folder,
        format=format_name(format),
        files=found.files,
        records=found.records,
        size_bytes=found.size_bytes,
        schemas=schemas,
    )
    records = f", {count(found.records, 'record')}" if found.records is not None else ""
    quote = f"{_files(found.files, fact.format)}{records}, {size(found.size_bytes)}"
    return Evidence(fact=fact, origin=Origin(source=folder), quote=quote)
