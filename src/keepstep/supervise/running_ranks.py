# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a job run on this machine, by their black boxes, and whether it leads a job on several nodes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.signals.blackbox import HEADER_SIZE, Doing, NotABox, doing, identity, newest_first
from keepstep.signals.box_files import open_box
from keepstep.sources.recorded.node_folders import read_node
from keepstep.store.run_folders import Listed, read_manifest


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


@dataclass(frozen=True)
class LedAttempt:
    """Of a run on several nodes that is led from this machine. Its ranks are asked through its folder."""

    folder: Path
    ranks: int
    """0: a launcher of the user starts them, and how many is not known here."""


def led_attempt(place: Path) -> LedAttempt | None:
    """``place``: a run folder."""
    manifest = read_manifest(place)
    if manifest is None or not manifest.attempts or Listed(place, manifest).state != "running":
        return None
    folder = place / f"attempt-{manifest.attempts[-1].number}"
    nodes = [node for each in folder.glob("node*/") if (node := read_node(each)) is not None]
    return LedAttempt(folder, sum(len(node.ranks) for node in nodes)) if nodes else None
