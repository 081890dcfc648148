# SPDX-License-Identifier: Apache-2.0
"""Files of training data, as `keepstep check data` reads them."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSchema:
    """The fields that some files have: name, type and shape of each. ``shape`` is empty where records differ in it."""

    fields: tuple[tuple[str, str, str], ...]
    files: int
    examples: tuple[str, ...]
    """The first of those files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsSeen(Fact):
    """All files of one format in one folder."""

    folder: str
    format: str
    files: int
    records: int | None = None
    size_bytes: int = 0
    schemas: tuple[ShardSchema, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBroken(Fact):
    """A file, or one record of it, is not as its format demands."""

    file: str
    format: str
    kind: str
    """``corrupt``, ``truncated``, ``empty``, ``misnamed``, ``index``, ``incomplete`` or ``missing``."""
    how: str
    record: int | None = None
    """Its number in the file, from 0."""
    offset: int | None = None
    """Where it begins, in bytes."""
    more: int = 0
    """Further bad records of this file that are not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardUnreadable(Fact):
    """A file could not be opened or read to its end."""

    file: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsAlike(Fact):
    """Files with the same content."""

    files: tuple[str, ...]
    size_bytes: int
    records: int | None = None
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardChanged(Fact):
    """A file differs from the manifest of an earlier check."""

    file: str
    silently: bool
    """Whether its size and modification time are as before."""
    protected: bool = False
    """Whether its format has checksums, which were right just now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesOdd(Fact):
    """A field of a data file has values that are not finite."""

    file: str
    field: str
    nans: int = 0
    infinities: int = 0
    record: int | None = None
    """The first such record."""
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange(Fact):
    """The smallest and largest value of a field of whole numbers, outside what the user says it may be."""

    file: str
    field: str
    low: int
    high: int
    classes: int
    record: int | None = None
    """The first record outside."""
