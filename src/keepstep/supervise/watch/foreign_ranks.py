# SPDX-License-Identifier: Apache-2.0
"""Ranks that the user's launcher started: not our children, but the kernel says when one ends and, briefly, how."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.exit_file import left_with
from keepstep.base.proc_stat import read_stat
from keepstep.supervise.start.process_exit import Doors, Exit
from keepstep.supervise.watch.vitals import Boxes, OpenBox, is_same, only_serve, said_goodbye

AT_ONCE_S = 0.2
"""Ends this close together are seen in any order: the one we know more about counts as the first."""


@dataclass(frozen=True)
class ForeignEnd:
    """A rank that ended; ``exit`` has neither code nor signal if its parent asked the kernel before us."""

    rank: int
    exit: Exit
    in_order: bool
    """By its black box."""
    by_design: bool = False
    """It served a coordinator that had finished, and was then ended by the program that started it."""

    @property
    def failed(self) -> bool:
        return not self.exit.well and not self.by_design and not (self.exit.code is None and self.exit.signal is None)


@dataclass
class Below:
    doors: Doors
    say: Callable[[str], None]
    _living: dict[int, tuple[OpenBox, int]] = field(default_factory=dict)
    _ended: list[ForeignEnd] = field(default_factory=list)
    _newest: float = 0.0

    def see(self, boxes: Boxes) -> None:
        """Take note of ranks that have announced themselves since."""
        known = {each.exit.pid for each in self._ended} | self._living.keys()
        for box in boxes.open.values():
            if box.pid in known or box.rank is None:
                continue
            entry = read_stat(box.pid)
            if entry is None:
                self._note_end(box, -1)  # between two looks
            elif is_same(box, entry):
                self._living[box.pid] = box, entry.started
                self._newest = max(self._newest, time.time())
                self.doors.add(box.pid)

    def look(self) -> None:
        """Take note of ranks that have ended since."""
        for pid, (box, started) in sorted(self._living.items(), key=lambda each: only_serve([each[1][0]])):
            entry = read_stat(pid)
            if entry is not None and entry.started == started and entry.lives:
                continue
            self.doors.drop(pid)
            del self._living[pid]
            self._note_end(box, started)

    def _note_end(self, box: OpenBox, started: int) -> None:
        exit_ = how_ended(box.pid, started, box.path)
        by_design = only_serve([box]) and any(each.exit.well or each.in_order for each in self._ended)
        ended = ForeignEnd(box.rank or 0, exit_, said_goodbye(box), by_design)
        self._ended.append(ended)
        if ended.failed and not box.who.get("killed_as"):  # else it is no news unless the launcher fails too
            self.say(f"rank {ended.rank} ended with {ended.exit.words} (pid {box.pid})")

    def failed_before(self) -> list[ForeignEnd]:
        """Those that failed before the launcher started its last ranks, without those that it then ended itself."""
        failed = [each for each in self._ended if each.failed and each.exit.at < self._newest]
        return [each for each in failed if each.exit.signal != "SIGTERM"]

    def first_to_fail(self) -> ForeignEnd | None:
        """Of the ranks that the launcher started last. One that left no trace of its end was killed, or crashed."""
        self.look()
        last = [each for each in self._ended if each.exit.at >= self._newest and not each.by_design]
        lost = [each for each in last if each.failed or not (each.exit.well or each.in_order)]
        together = [each for each in lost if each.exit.at < lost[0].exit.at + AT_ONCE_S]
        return min(together, key=lambda each: not each.failed, default=None)


def how_ended(pid: int, started: int, box: Path) -> Exit:
    """How it ended: by the kernel until its parent has asked, else by what the C library left beside its black box."""
    at = time.time()
    entry = read_stat(pid)
    if entry is not None and entry.started == started and (status := entry.wait_status) is not None:
        with contextlib.suppress(ValueError):
            if status & 0x7F:
                return Exit(pid=pid, at=at, signal=signal.Signals(status & 0x7F).name, dumped=bool(status & 0x80))
            return Exit(pid=pid, at=at, code=status >> 8)
    return Exit(pid=pid, at=at, code=left_with(box))
