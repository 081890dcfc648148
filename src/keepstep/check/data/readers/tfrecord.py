# SPDX-License-Identifier: Apache-2.0
"""TFRecord: both CRCs of every record, lengths, a tail cut short; packed with gzip or zlib or not."""

from __future__ import annotations

from typing import Any

from keepstep.check.data.readers.longest import Longest
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource, native_crc
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.example_proto import Feature, NotAnExample, features, whole_numbers
from keepstep.parse.formats.data.tfrecord import Walk
from keepstep.sources.files.unpack import Damaged, TooMuch

FIRST_RECORDS = 20
"""The schema is that of the first records."""


def read(source: DataSource, asked: ReadRequest, packed: str = "") -> UnitRead:
    """All records of a file."""
    looked = UnitRead("tfrecord", protected=True, packed=packed)
    crc = native_crc()
    if crc is None:
        looked.missing_library = "crc32c"
        return looked
    contents = _Contents(asked)
    walk = Walk(crc, _numpy(), contents.take)
    try:
        for piece in source.content_parts(packed, fast=True):
            if not asked.values and walk.records >= FIRST_RECORDS:
                walk.no_more_records()
            if not isinstance(piece, int):
                walk.feed(piece)
            elif not walk.skip_zeros(piece):
                raise TooMuch(f"{source.said_of_holes()}; it was read up to a record with a hole")
        walk.end()
    except Damaged as error:
        walk.bad.add(
            Bad(
                "truncated" if "end is missing" in str(error) else "corrupt", f"unpacking failed: {error}", walk.records
            )
        )
    except TooMuch as error:
        looked.unread = str(error)
    looked.records, looked.bad = walk.records, walk.bad
    looked.fields, looked.odd = contents.fields(), contents.numbers.odd()
    looked.labels = contents.numbers.labels(walk.records)
    return looked


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class _Contents:
    """What the records hold, as far as they are examples."""

    def __init__(self, asked: ReadRequest) -> None:
        self.numbers, self._longest = Numbers(asked), Longest()
        self._asked = asked
        self._known: dict[str, tuple[str, str]] = {}
        self._records = 0
        self._is_example = True

    def take(self, number: int, data: bytes) -> None:
        """One record."""
        if not self._is_example or (number >= FIRST_RECORDS and not self._asked.values):
            return
        try:
            found = features(data)
        except NotAnExample:
            self._is_example = self._records > 0  # one odd record among examples changes nothing
            return
        self._records += 1
        for name, feature in found.items():
            if number < FIRST_RECORDS:
                self._note(name, feature)
            if self._asked.values:
                self._values(number, name, feature)
                if feature.kind != "bytes" and name in self._known:
                    self._longest.add(name, feature.count)

    def _note(self, name: str, feature: Feature) -> None:
        if feature.kind == "nothing":
            return
        kind, length = self._known.get(name, (feature.kind, str(feature.count)))
        self._known[name] = (kind, length if length == str(feature.count) else "")

    def _values(self, number: int, name: str, feature: Feature) -> None:
        if feature.kind == "float32":
            self.numbers.floats(name, number, feature.values, "<f4")
        elif feature.kind == "int64" and self.numbers.wants(name):
            self.numbers.whole(name, number, whole_numbers(feature))

    def fields(self) -> list[Field]:
        if not self._is_example:
            return []
        return self._longest.told(Field(name, kind, length) for name, (kind, length) in sorted(self._known.items()))
