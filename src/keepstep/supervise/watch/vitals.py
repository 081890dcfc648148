# SPDX-License-Identifier: Apache-2.0
"""What ranks show from outside: their black boxes, and what the kernel says of their processes."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import re
import signal
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keepstep.base.proc_stat import ProcStat, all_processes, family, with_descendants
from keepstep.signals import blackbox
from keepstep.signals.blackbox import HEADER_SIZE, RECORD, BoxPhase, Doing, NotABox, Record, RecordKind
from keepstep.signals.box_files import open_box
from keepstep.supervise.watch.hang_detector import Sign

LOOK_FOR_BOXES_S = 0.5
TABLE_S = 2.0
RECENT, MOST_RECENT = 400, 20_000
"""How many records of each box are read to see who is late: at least, and at most of all together."""
_PHASE, _CHECKPOINT = int(RecordKind.PHASE), int(BoxPhase.CHECKPOINT)
SERVERS = ("parameter server", "worker of a coordinator")
"""What the guard calls them, see `guard/own_rank.py`."""
HELPERS = re.compile(rb"resource_tracker|semaphore_tracker|forkserver")


class OpenBox:
    """A black box that is read while its process lives, and after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_box(path) as stream:
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._data = memoryview(self._map)
        self.who: dict[str, Any] = blackbox.identity(self._data)

    def read_identity(self) -> None:
        """Read it again: a rank may have learned who it is since."""
        with contextlib.suppress(NotABox, ValueError):
            self.who = blackbox.identity(self._data) or self.who

    @property
    def pid(self) -> int:
        pid = self.who.get("pid")
        return pid if isinstance(pid, int) else 0

    @property
    def rank(self) -> int | None:
        rank = self.who.get("rank")
        return rank if isinstance(rank, int) else None

    def doing(self) -> Doing | None:
        return blackbox.doing(self.newest_first())

    def newest_first(self) -> Iterator[Record]:
        return blackbox.newest_first(self._data)

    def records(self) -> tuple[Record, ...]:
        return blackbox.read(self._data).records

    def checkpointed(self) -> dict[int, int]:
        """After how many steps it began checkpoints, and when (monotonic nanoseconds), as far as the ring goes."""
        ring = blackbox.columns(self._data, (len(self._data) - HEADER_SIZE) // RECORD.size)
        fields = zip(ring.kinds, ring.values, ring.extras, ring.at, strict=True)
        found = sorted((extra, at) for kind, value, extra, at in fields if kind == _PHASE and value == _CHECKPOINT)
        return dict(found)

    def recent(self, most: int) -> tuple[Record, ...]:
        """The last records, oldest first."""
        return tuple(itertools.islice(self.newest_first(), most))[::-1]

    def close(self) -> None:
        self._data.release()
        self._map.close()


class Boxes:
    """The boxes of one folder that were written on this host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: dict[str, OpenBox] = {}
        self._host = socket.gethostname()[:120]
        self._looked = 0.0
        self._passed: set[str] = set()

    def refresh(self, *, now: bool = False) -> None:
        """Open new boxes, and close those moved to another folder. A box that is not complete yet is tried again."""
        at = time.monotonic()
        if not now and at - self._looked < LOOK_FOR_BOXES_S:
            return
        self._looked = at
        with contextlib.suppress(OSError):
            names = os.listdir(self.folder)
            for name in self.open.keys() - set(names):
                self.open.pop(name).close()
            for name in names:
                if (
                    name.endswith(".box")
                    and not name.startswith(".")
                    and name not in self.open
                    and name not in self._passed
                ):
                    self._open(name)
        for box in self.open.values():
            box.read_identity()

    def _open(self, name: str) -> None:
        try:
            box = OpenBox(self.folder / name)
        except (OSError, NotABox, ValueError):
            return
        if box.who.get("host") != self._host or not box.pid:
            if box.who:
                self._passed.add(name)
            box.close()
            return
        self.open[name] = box

    def close(self) -> None:
        for box in self.open.values():
            box.close()
        self.open.clear()


def recent_of(boxes: Iterable[OpenBox]) -> dict[int, tuple[Record, ...]]:
    """The last records of every rank: enough to tell who is late, and few enough to be cheap."""
    ranked = {box.rank: box for box in boxes if box.rank is not None}
    most = max(RECENT, MOST_RECENT // max(1, len(ranked)))
    return {rank: box.recent(most) for rank, box in ranked.items()}


def is_same(box: OpenBox, entry: ProcStat | None) -> bool:
    """Whether the living process of this number is the one that wrote the box."""
    if entry is None or not entry.lives:
        return False
    if isinstance(started := box.who.get("started"), int):
        return started == entry.started
    began, wall = entry.began(), box.who.get("wall")
    return began is None or not isinstance(wall, int | float | None) or began <= (wall or 0.0) + 2.0


def only_serve(boxes: Iterable[OpenBox]) -> bool:
    """Whether all of them serve a coordinator that has not come yet: they do nothing by design."""
    roles = [box.who.get("killed_as") for box in boxes]
    return bool(roles) and all(role in SERVERS for role in roles)


def sign_of(
    pid: int, rank: int | None, doing: Doing | None, listed: Mapping[int, ProcStat], *, at: float, printed: int = 0
) -> Sign:
    """What the rank of this process shows now."""
    tree = family(listed, [pid])
    entry = listed.get(pid)
    return Sign(
        pid=pid,
        rank=rank,
        at=at,
        phase=doing.phase if doing is not None else None,
        steps=doing.steps if doing is not None else 0,
        progress=doing.last / 1e9 if doing is not None else None,
        usual_s=doing.usual_ns / 1e9 if doing is not None and doing.usual_ns is not None else None,
        cpu_s=sum(listed[each].cpu_s for each in tree),
        transferred=sum(transferred(each) for each in tree),
        printed=printed,
        frozen=entry is not None and entry.state in "Tt",
        collective=doing.collective if doing is not None else None,
        between=doing is not None and doing.between,
        runs=any(listed[each].state in "RD" for each in tree),
    )


def signs_of(
    pid: int,
    rank: int | None,
    boxes: Sequence[OpenBox],
    doings: Mapping[int, Doing | None],
    listed: dict[int, ProcStat],
    *,
    at: float,
    printed: int,
) -> list[Sign]:
    """What one of the started processes shows: by the black boxes of the ranks in or below it, else by itself.

    Nothing for servers that only wait, nor for a launcher that has not begun.
    """
    tree = family(listed, [pid]) or {pid}
    own = [box for box in boxes if box.pid in tree or rank is None]
    if rank is None and only_serve(own):
        return []
    if own:
        return [
            sign_of(
                box.pid, box.rank if box.rank is not None else rank, doings.get(box.pid), listed, at=at, printed=printed
            )
            for box in own
        ]
    if rank is None and not has_started(pid, listed):
        return []
    stopped = next((each for each in sorted(tree) if each in listed and listed[each].state == "T"), None)
    return [sign_of(stopped or training_process(pid, listed), rank, None, listed, at=at, printed=printed)]


def said_goodbye(box: OpenBox) -> bool:
    """Whether its process ended by itself, and not in the middle of something."""
    return any(record.kind == RecordKind.GOODBYE for record in box.recent(8))


def uses_grace(pid: int, boxes: Iterable[OpenBox]) -> bool:
    """Whether a rank can use the time between SIGTERM and its end: its script handles the signal, or it is saving.

    True if unknown: it has no box, or a shell is in front of it.
    """
    box = next((box for box in boxes if box.pid == pid), None)
    if box is None or box.who.get("hears_term", True) or _blocks_term(pid):
        return True
    doing = box.doing()
    return doing is None or doing.phase is BoxPhase.CHECKPOINT


def _blocks_term(pid: int) -> bool:
    """Whether a thread of its own receives SIGTERM, which the others block."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open(f"/proc/{pid}/status") as stream:
        blocked = next(line for line in stream if line.startswith("SigBlk:"))
        return bool(int(blocked.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return True


def has_started(root: int, listed: Mapping[int, ProcStat]) -> bool:
    """Whether a launcher has started anything. Slurm's may wait for hours, and its ranks are not its children."""
    own = _command(root)
    return any(_command(pid) not in (own, b"") for pid in family(listed, [root]) - {root})


def is_helper(pid: int) -> bool:
    """Whether it is a process that multiprocessing keeps for itself."""
    return HELPERS.search(_command(pid)) is not None


def training_process(root: int, listed: Mapping[int, ProcStat]) -> int:
    """Without a box: the process below ``root`` that trains. A shell or `python -m launcher` only waits for it."""
    tree = family(listed, [root])
    if len(tree) < 2:
        return root
    useful = [pid for pid in tree if not is_helper(pid)]
    pythons = [pid for pid in useful if b"python" in _command(pid).split(b"\0")[0]]
    best = root
    if pythons and root not in pythons:
        top = [pid for pid in pythons if listed[pid].parent not in pythons]
        best = max(top or pythons, key=lambda pid: listed[pid].cpu_s)
    return best


class Seer:
    """Looks at boxes often, and at all processes of the host only as often as it must."""

    def __init__(self) -> None:
        self._listed: dict[int, ProcStat] = {}
        self._at = 0.0
        self._last: dict[int, int] = {}

    def processes(
        self, doings: Mapping[int, Doing | None], at: float, roots: Collection[int] | None = None
    ) -> dict[int, ProcStat]:
        """The processes, read now unless every rank has moved since a recent read.

        ``roots``: only those below these and below the ranks are needed; None: all of the host.
        """
        last = {pid: doing.last for pid, doing in doings.items() if doing is not None}
        all_moved = len(last) == len(doings) and all(self._last.get(pid, at_) != at_ for pid, at_ in last.items())
        if not all_moved or at - self._at > TABLE_S or not self._listed:
            self._listed, self._at = all_processes() if roots is None else with_descendants({*roots, *doings}), at
        self._last = last
        return self._listed


def transferred(pid: int) -> int:
    """Bytes that a process has read and written so far, and its children that have ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/io", "rb") as stream:
            lines = stream.read().split()
        return int(lines[1]) + int(lines[3])
    return 0


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
        return stream.read(4096)
    return b""


def crowding() -> float:
    """How many processes compete for each core of this host, over the last minute; at least 1."""
    try:
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return 1.0
