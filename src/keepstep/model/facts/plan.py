# SPDX-License-Identifier: Apache-2.0
"""What a plan of the data says that ranks would be fed, before anything runs."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSeen(Fact):
    """What one rank would be given in an epoch."""

    policy: str
    of_rank: int
    records: int
    steps: int
    dropped: int
    cells: tuple[int, ...]
    """All records in order, cut into pieces of the same size: how many per cent of each piece this rank gets."""
    shuffled: bool = False
    """Whether that order is shuffled, so a piece is not a part of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRefuses(Fact):
    """The loader would stop with an error, because the files cannot be divided as asked."""

    policy: str
    message: str
    ranks: tuple[int, ...]
    files: int
    readers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEmpty(Fact):
    """Ranks that would be given no record at all."""

    policy: str
    empty: tuple[int, ...]
    count: int
    of: int
    files: int
    by_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsUneven(Fact):
    """Ranks would have different numbers of steps per epoch."""

    policy: str
    least: int
    most: int
    short: tuple[int, ...]
    """The ranks with the fewest steps; not all of them if they are many."""
    count: int
    of: int
    hangs: bool
    """Whether the others would then wait for ever; else the framework feeds empty batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesUneven(Fact):
    """A step whose batches are smaller than usual, or of different sizes on the ranks."""

    policy: str
    step: int
    batch: int
    rows: tuple[int, ...]
    differ: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRepeated(Fact):
    """Records that would be fed more than once per epoch."""

    policy: str
    records: int
    repeats: int
    shared: int
    """Records that more than one rank would get."""
    ranks: int
    padding: bool
    """Whether they only fill up the shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsUnseen(Fact):
    """Records that no rank would get in an epoch."""

    policy: str
    records: int
    unseen: int
    dropped: int
    """How many of them incomplete batches drop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersIdle(Fact):
    """Worker processes of loaders that would get nothing to read."""

    policy: str
    idle: int
    workers: int
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSkewed(Fact):
    """A label that one rank would get far more often than the others, or never."""

    policy: str
    label: str
    of_rank: int
    share: float
    usual: float
    by_file: bool = True
    """Whether files are given out whole."""
