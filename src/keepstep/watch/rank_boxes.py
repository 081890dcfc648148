# SPDX-License-Identifier: Apache-2.0
"""The black boxes of an attempt, read for showing: who each rank is, what it did and when. Of a live run too."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keepstep.signals import blackbox
from keepstep.signals.blackbox import BlackBox, BoxPhase, Doing, RecordKind
from keepstep.signals.box_files import open_box
from keepstep.sources.files.left_files import FileKind, LeftFile
from keepstep.sources.recorded.node_folders import with_nodes
from keepstep.sources.recorded.own_records import is_alive
from keepstep.watch.past import Cell

STUCK_S, STUCK_STEPS = 5.0, 10
"""A rank that should step and has shown no progress for this long, and for this many usual steps, is stuck."""
MANY, NEWEST = 64, 400
"""Of more ranks than this, only so many records are read: the history has the rest."""
STEPS = (BoxPhase.COMPUTE, BoxPhase.INPUT)


@dataclass(frozen=True)
class RankBox:
    """One rank's box. Times are seconds since the epoch, by the clock of the supervisor's host."""

    rank: int
    host: str
    box: BlackBox
    did: Doing | None
    alive: bool
    ahead_s: float
    """How far its host's clock is ahead."""
    sent: bool
    """Whether its node sent it, so it may be of an earlier time."""
    now: float
    """When it was read, for a live one; else its last record."""

    def at(self, monotonic: int) -> float:
        return self.box.wall(monotonic) - self.ahead_s

    @property
    def began(self) -> float:
        return self.at(self.box.records[0].at) if self.box.records else self.now

    @property
    def last(self) -> float:
        """The last sign of life: of its guard's thread too."""
        return self.at(self.box.records[-1].at) if self.box.records else self.began

    @property
    def is_whole(self) -> bool:
        """Whether its first record is still there: the ring drops the oldest."""
        return bool(self.box.records) and self.box.records[0].number == 1

    @property
    def progress(self) -> float:
        """The last sign of progress."""
        return self.at(self.did.last) if self.did is not None else self.last

    @property
    def ended_well(self) -> bool:
        """Whether it said goodbye, and not after an error."""
        return any(record.kind == RecordKind.GOODBYE and record.value == 0 for record in self.box.records[-8:])

    def stuck_after_s(self) -> float:
        usual = (self.did.usual_ns or 0) / 1e9 if self.did is not None else 0.0
        return max(STUCK_S, STUCK_STEPS * usual)

    def phases(self) -> Iterator[tuple[float, float, Cell]]:
        """From when to when it did what."""
        entered = [(r.at, blackbox.phase_of(r.value)) for r in self.box.records if r.kind == RecordKind.PHASE]
        stepped = next((r.at for r in self.box.records if r.kind == RecordKind.STEP), None)
        if stepped is not None and not any(phase in STEPS for _, phase in entered):
            entered = sorted([*entered, (stepped, BoxPhase.COMPUTE)])
        if not entered and self.box.records:
            entered = [(self.box.records[0].at, BoxPhase.START)]
        end = self.now if self.alive else self.last
        times = [self.at(at) for at, _ in entered]
        for (_, phase), begin, until in zip(entered, times, [*times[1:], end], strict=True):
            quiet = max(begin, self.progress)
            if until is end and phase in STEPS and until - quiet > self.stuck_after_s():
                yield begin, quiet, Cell(phase + 1)
                yield quiet, until, Cell.STUCK
            else:
                yield begin, until, Cell(phase + 1)

    def waits(self) -> Iterator[tuple[float, float, float]]:
        """From when to when, the share of the time in which its training thread neither ran nor was ready to run."""
        held = [r for r in self.box.records if r.kind == RecordKind.HELD]
        for one, other in itertools.pairwise(held):
            taken = other.at - one.at
            if taken > 0:
                used = (other.value + other.extra - one.value - one.extra) / taken
                yield self.at(one.at), self.at(other.at), min(1.0, max(0.0, 1.0 - used))

    def step_times(self) -> Iterator[tuple[float, float]]:
        return ((self.at(r.at), r.extra / 1e9) for r in self.box.records if r.kind == RecordKind.STEP and r.extra > 0)


def read_boxes(attempt: Path, *, whole: bool, rank: int | None = None) -> list[RankBox]:
    """One box for each rank of an attempt or a folder of guards, or of one rank: that of its latest process.

    Not ``whole``, and of many ranks, only the newest records.
    """
    name = "*.box" if rank is None else f"rank{rank}-*.box"
    places = sorted(path for where in ("", "guard/", "node*/guard/") for path in attempt.glob(where + name))
    whole = whole and len(places) <= MANY
    left = [LeftFile(path, str(path.relative_to(attempt)), FileKind.BLACK_BOX) for path in places]
    found: dict[int, RankBox] = {}
    for each in with_nodes(left):
        with contextlib.suppress(OSError, blackbox.NotABox):
            one = _read(each, whole)
            if one is not None and (one.rank not in found or _rather(one, found[one.rank])):
                found[one.rank] = one
    return [found[rank] for rank in sorted(found)]


def _rather(one: RankBox, other: RankBox) -> bool:
    """A process that trained rather than a helper of it; then the later one."""
    return (bool(one.did and one.did.steps), one.began) > (bool(other.did and other.did.steps), other.began)


def _read(left: LeftFile, whole: bool) -> RankBox | None:
    assert left.path is not None
    with open_box(left.path) as stream:
        if whole:
            box = blackbox.read(stream.read(blackbox.MOST_BYTES))
        else:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                newest = list(itertools.islice(blackbox.newest_first(data), NEWEST))
                box = BlackBox(blackbox.identity(data), tuple(reversed(newest)))
    rank, host, now = box.who.get("rank"), box.who.get("host"), time.time()
    if not isinstance(rank, int):
        return None
    ahead = left.node.ahead_s if left.node is not None else 0.0
    where = left.node.host if left.node is not None else host if isinstance(host, str) else socket.gethostname()
    if left.node is not None and left.node.living is not None:
        alive = left.node.fresh and box.who.get("pid") in left.node.living
    else:
        alive = is_alive(box.who)
    did = blackbox.doing(tuple(reversed(box.records)))
    return RankBox(rank, where, box, did, alive, ahead, left.node is not None, now)
