# SPDX-License-Identifier: Apache-2.0
"""What a plan is made of: files with their numbers of records, the request, and one share per rank."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from keepstep.check.data.labels import Labels
from keepstep.check.data.plan.runs import Stream, count, meets
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True)
class FileRecords:
    """A file and how many records it holds. ``labels``: the label of each, where that is known."""

    name: str
    records: int
    labels: Labels | None = None


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a plan is made for."""

    files: tuple[FileRecords, ...]
    ranks: int
    batch: int
    workers: int = 0
    """Worker processes of each rank's loader; 0: the rank reads by itself."""
    nodes: int = 1
    """Among how many hosts the ranks are divided evenly; only MDS asks for it."""
    drop_last: bool = False
    """Whether the loader drops a last batch that is not full (``drop_last``, ``drop_remainder``)."""

    @property
    def records(self) -> int:
        return sum(each.records for each in self.files)

    @property
    def readers(self) -> int:
        """Streams per rank."""
        return max(self.workers, 1)


class Parts(Enum):
    """How the shares relate to each other."""

    DISJOINT = "no record is in two shares"
    COPIES = "every rank is given all records"
    PADDED = "shares are filled up with records of other shares"


class AtEnd(Enum):
    """What happens when ranks have different numbers of steps."""

    HANGS = "the others wait in the next collective"
    FED_EMPTY = "the framework feeds empty batches to the ranks that are done"


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one rank is given in one epoch. Record numbers count over all files in order."""

    rank: int
    streams: tuple[Stream, ...]
    """What each of its readers gets, after what its batches drop."""
    steps: int
    rows: tuple[int, ...]
    """The sizes of its batches that occur, the largest first; 0 for an empty one."""
    dropped: int = 0
    """Records that it was given, but that its incomplete batches drop."""
    last_rows: int | None = None
    """The rows of its last step; None where its workers take turns in an order that is not established."""

    @property
    def records(self) -> int:
        return sum(count(stream) for stream in self.streams)

    @property
    def idle(self) -> int:
        """Readers that get nothing."""
        return sum(not stream for stream in self.streams) if len(self.streams) > 1 else 0


@dataclass(frozen=True, kw_only=True)
class Split:
    """What a policy makes of a request."""

    shares: tuple[Share, ...]
    parts: Parts
    seen: int
    """Records that at least one rank gets."""
    shared: int = 0
    """Records that more than one rank gets."""
    at_end: AtEnd = AtEnd.HANGS
    refusal: str | None = None
    """Why the loader stops with an error instead, in its own words where it has any."""
    refusing: tuple[int, ...] = ()
    """The ranks that stop with this error; none: all."""
    by_file: bool = False
    """Whether files are given out whole."""
    shuffled: bool = False
    """Whether record numbers are places in the epoch's shuffled order, and not in the files."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each rank would be fed in one epoch."""

    policy: str
    asked: PlanRequest
    split: Split
    seed: int = 0
    epoch: int = 0
    problems: tuple[Fact, ...] = field(default=())

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.split.shares

    @property
    def records(self) -> int:
        return self.asked.records

    @property
    def overlap(self) -> int:
        """Records that more than one rank gets."""
        return self.split.shared

    @property
    def unseen(self) -> int:
        """Records that no rank gets."""
        return self.records - self.split.seen

    @property
    def repeats(self) -> int:
        """How many times a record is given out that was given out before, in this epoch."""
        return sum(each.records for each in self.shares) - self.split.seen

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(each.steps for each in self.shares)

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [], 0
        for each in self.asked.files:
            starts.append(at)
            at += each.records
        return starts

    def file_of(self, record: int) -> FileRecords:
        """The file that holds a record number."""
        if not 0 <= record < self.records:
            raise IndexError(f"record {record} of {self.records}")
        return self.asked.files[bisect_right(self._starts, record) - 1]

    def files_of(self, rank: int) -> tuple[str, ...]:
        """The files that a rank reads, in the order of the files; all of them where the order is shuffled."""
        if self.split.shuffled:
            return tuple(each.name for each in self.asked.files if each.records)
        touched: set[int] = set()
        for run in (run for stream in self.shares[rank].streams for run in stream):
            for index in range(bisect_right(self._starts, run[0]) - 1, bisect_right(self._starts, run[-1])):
                start = self._starts[index]
                if meets(run, start, start + self.asked.files[index].records):
                    touched.add(index)
        return tuple(self.asked.files[index].name for index in sorted(touched))
