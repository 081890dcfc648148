# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a part of a data file, and the bounded list of it."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_BAD = 100
"""Bad records of one file that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad record, or what is wrong with the file as a whole."""

    kind: str
    """``corrupt``, ``truncated``, ``empty``, ``misnamed`` (another format than its name says), ``index`` (it and the index
    that describes it disagree), ``incomplete`` (a sample lacks a part that others have) or ``missing``."""
    how: str
    record: int | None = None
    """Its number in the file, from 0."""
    offset: int | None = None
    """Where it begins, in bytes; in a packed file, of what is unpacked."""
    length: int | None = None
    """How many bytes belong to it, if that is known."""
    line: int | None = None
    part: str | None = None
    """The member, column or chunk that it is in."""


@dataclass(slots=True)
class BadList:
    """The first bad records, and how many more there are."""

    first: list[Bad] = field(default_factory=list)
    more: int = 0

    def add(self, bad: Bad) -> None:
        if len(self.first) < MOST_BAD:
            self.first.append(bad)
        else:
            self.more += 1

    def __len__(self) -> int:
        return len(self.first) + self.more
