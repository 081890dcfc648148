# SPDX-License-Identifier: Apache-2.0
"""What is given to a worker, and what comes back: plain data, ready for JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from keepstep.model.codec import build
from keepstep.parse.formats.data.bad import Bad, BadList

INSTALL = "pip install 'keepstep[data]'"
HASH_ONLY = "hash"
"""The kind of a unit of which only the hash is asked."""


@dataclass(frozen=True, slots=True)
class DataUnit:
    """One thing to read: a file, a shard that an index describes, or a folder that is one array store."""

    path: str
    """Where it is: a local path, or an URL that fsspec understands."""
    root: str = ""
    """The path that was given, in which it lies."""
    size: int = 0
    mtime_ns: int = 0
    kind: str = ""
    """The format, where it is known before the file is opened (``mds``, ``litdata``, ``zarr``), or ``HASH_ONLY``."""
    about: str = ""
    """What the index says about it, as JSON."""
    number: int = 0
    """Its place among all units."""
    follow: bool = False
    """Whether it may lie outside ``root``."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How to read."""

    values: bool = False
    classes: int | None = None
    labels: tuple[str, ...] = ()
    """Names of the fields that hold labels or tokens; empty: the usual names."""
    order: bool = False
    """Whether the label of each record is wanted, to say which rank gets which."""
    work: int = 1
    """So many times the usual work is done before a file is left."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema."""

    name: str
    dtype: str
    shape: str = ""
    longest: int | None = None
    """Characters of the longest text, or values of the longest list, where records may differ in that."""


@dataclass(frozen=True, slots=True)
class Odd:
    """Values of one field: not finite, or the range of whole numbers."""

    field: str
    nans: int = 0
    infinities: int = 0
    record: int | None = None
    low: int | None = None
    high: int | None = None
    outside: int | None = None
    """The first record whose value is outside the classes."""


@dataclass(slots=True)
class UnitRead:
    """What a reader found. ``unread`` says why it could not look, or not at everything."""

    format: str
    records: int | None = None
    fields: list[Field] = field(default_factory=list)
    bad: BadList = field(default_factory=BadList)
    odd: list[Odd] = field(default_factory=list)
    protected: bool = False
    """Whether a flipped bit in the payload would have been noticed."""
    packed: str = ""
    digest: str = ""
    unreadable: str = ""
    """The operating system's reason why it could not be read."""
    unread: str = ""
    missing_library: str = ""
    changed: bool = False
    """Whether the file changed while it was read: then nothing is said about it."""
    data: bool = True
    """Whether it is data at all: a README is not."""
    labels: str = ""
    """The label of each record, as :mod:`keepstep.check.data.labels` writes it."""

    def broken(self, bad: Bad) -> UnitRead:
        """With one more bad part."""
        self.bad.add(bad)
        return self


def unit_to_list(unit: DataUnit) -> list[Any]:
    """A unit without its number, as short as it gets: there may be millions."""
    return [unit.path, unit.root, unit.size, unit.mtime_ns, unit.kind, unit.about, unit.follow]


def unit_from(found: list[Any], number: int) -> DataUnit:
    """The way back."""
    path, root, size, mtime_ns, kind, about, follow = found
    return DataUnit(path, root, size, mtime_ns, kind, about, number, follow)


def to_plain(thing: ReadRequest | UnitRead) -> dict[str, Any]:
    """As a dictionary for JSON; defaults are left out."""
    found: dict[str, Any] = {}
    for name, default in _DEFAULTS[type(thing)]:
        value = getattr(thing, name)
        kind = type(value)
        if kind is BadList:
            if len(value):
                found[name] = {"first": [_small(bad) for bad in value.first], "more": value.more}
        elif kind is list:
            if value:
                found[name] = [_small(one) for one in value]
        elif value != default:
            found[name] = list(value) if kind is tuple else value
    return found


def _known_defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (each.name, None if each.default is dataclasses.MISSING else each.default) for each in dataclasses.fields(kind)
    )


_DEFAULTS = {kind: _known_defaults(kind) for kind in (ReadRequest, UnitRead, Field, Odd, Bad)}
"""Asked for once: a million files have millions of fields."""


def _small(thing: Any) -> dict[str, Any]:
    return {name: value for name, _ in _DEFAULTS[type(thing)] if (value := getattr(thing, name)) is not None}


_PLAIN = {"format": str, "records": int, "protected": bool, "packed": str, "digest": str, "unreadable": str}
_PLAIN |= {"unread": str, "missing_library": str, "changed": bool, "data": bool, "labels": str}


def looked_from(found: dict[str, Any]) -> UnitRead:
    """The way back. Raises ``ValueError``."""
    try:
        looked = UnitRead(found["format"])
        for name, value in found.items():
            if name == "fields":
                looked.fields = [_field(**each) for each in value]
            elif name == "bad":
                looked.bad = build(BadList, value)
            elif name == "odd":
                looked.odd = [build(Odd, each) for each in value]
            elif type(value) is _PLAIN[name]:
                setattr(looked, name, value)
            else:
                raise ValueError(f"not a result: {name} is {value!r}")
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"not a result: {error}") from error
    return looked


def _field(name: str, dtype: str, shape: str = "", longest: int | None = None) -> Field:
    if not type(name) is type(dtype) is type(shape) is str or type(longest) not in (int, type(None)):
        raise ValueError("not a field")
    return Field(name, dtype, shape, longest)
