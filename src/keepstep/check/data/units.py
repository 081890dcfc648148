# SPDX-License-Identifier: Apache-2.0
"""What is given to a worker, and what comes back: plain data, ready for JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from keepstep.core.codec import build
from keepstep.parse.formats.data.bad import Bad, BadList

INSTALL = "pip install 'keepstep[data]'"


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to read: a file, a shard that an index describes, or a folder that is one array store."""

    path: str
    """Where it is: a local path, or an URL that fsspec understands."""
    root: str = ""
    """The path that was given, in which it was found."""
    size: int = 0
    mtime_ns: int = 0
    kind: str = ""
    """The format, where it is known before the file is opened (``mds``, ``litdata``, ``zarr``)."""
    about: str = ""
    """What the index says about it, as JSON."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How to read."""

    values: bool = False
    classes: int | None = None
    labels: tuple[str, ...] = ()
    """Names of the fields that hold labels or tokens; empty: the usual names."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema."""

    name: str
    dtype: str
    shape: str = ""


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
class Looked:
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

    def broken(self, bad: Bad) -> Looked:
        """With one more bad part."""
        self.bad.add(bad)
        return self


def to_plain(thing: Unit | Asked | Looked) -> dict[str, Any]:
    """As a dictionary for JSON; defaults are left out."""
    found: dict[str, Any] = {}
    for each in dataclasses.fields(thing):
        value = getattr(thing, each.name)
        default = each.default if each.default is not dataclasses.MISSING else None
        if isinstance(value, BadList):
            if len(value):
                found[each.name] = {"first": [_small(bad) for bad in value.first], "more": value.more}
        elif isinstance(value, list):
            if value:
                found[each.name] = [_small(one) for one in value]
        elif value != default:
            found[each.name] = list(value) if isinstance(value, tuple) else value
    return found


def _small(thing: Any) -> dict[str, Any]:
    return {each.name: value for each in dataclasses.fields(thing) if (value := getattr(thing, each.name)) is not None}


def looked_from(found: dict[str, Any]) -> Looked:
    """The way back. Raises ``ValueError``."""
    try:
        looked: Looked = build(Looked, found)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"not a result: {error}") from error
    return looked
