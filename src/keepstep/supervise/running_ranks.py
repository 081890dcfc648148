# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a job run on this machine, by their black boxes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.signals.blackbox import HEADER_SIZE, Doing, NotABox, doing, identity, newest_first
from keepstep.signals.box_files import open_box


@dataclass(frozen=True)
class RunningRank:
    """A living process with a black box."""

    pid: int
    rank: int | None
    box: Path
    saves_on_request: bool
    pauses_on_request: bool

    def doing(self) -> Doing | None:
        """What it does now, as far as its box can be read."""
        with contextlib.suppress(OSError, ValueError), open_box(self.box) as stream:
            return doing(newest_first(stream.read()))
        return None


def running_ranks(place: Path) -> tuple[Path, tuple[RunningRank, ...]]:
    """The newest folder with black boxes of living ranks. ``place``: a run folder, or a folder of guards."""
    attempts = sorted(place.glob("attempt-*/guard"), key=lambda each: int(each.parent.name.partition("-")[2]))
    for folder in [*reversed(attempts), place / "guard", place]:
        found = []
        for path in sorted(folder.glob("*.box")):
            with contextlib.suppress(OSError, NotABox), open_box(path) as stream:
                who = identity(stream.read(HEADER_SIZE))
                entry = read_stat(who["pid"])
                if entry is not None and entry.lives and entry.started == who.get("started"):
                    may = (bool(who.get(name)) for name in ("saves_on_request", "pauses_on_request"))
                    found.append(RunningRank(int(who["pid"]), who.get("rank"), path, *may))
        if found:
            return folder, tuple(found)
    return place, ()
