# SPDX-License-Identifier: Apache-2.0
"""Ranks that a launcher started and asked for before we could: who of them failed first."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from keepstep.base.exit_file import FORMAT, exit_file
from keepstep.guard.box_writer import Box
from keepstep.supervise.start.process_exit import Doors
from keepstep.supervise.watch import foreign_ranks as module
from keepstep.supervise.watch.foreign_ranks import Below
from keepstep.supervise.watch.vitals import Boxes
from tests.supervise.starting import wait_for


class Launcher:
    """Starts ranks with black boxes, and waits for each of them at once, as a shell does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.boxes = Boxes(folder)
        self.below = Below(Doors(), print)
        self.ranks: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, rank: int) -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.ranks[rank] = process
        ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        Box(self.box(rank), {"pid": process.pid, "rank": rank, "started": ticks, "host": os.uname().nodename})
        self.boxes.refresh(now=True)
        self.below.see(self.boxes)

    def box(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.box"

    def end(self, rank: int, status: int | None = None) -> None:
        """With a status of its own, or by SIGKILL; the launcher has asked for it before we look."""
        if status is not None:
            exit_file(self.box(rank)).write_bytes(FORMAT.pack(status))
        self.ranks[rank].kill()
        self.ranks[rank].wait()
        self.below.look()


def test_one_that_left_no_word_was_the_first(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    launcher.start(0)
    launcher.start(1)
    launcher.end(1)
    time.sleep(module.AT_ONCE_S)  # the other fails because of it
    launcher.end(0, status=1)
    first = launcher.below.first_to_fail()
    assert first is not None and (first.rank, first.exit.code, first.exit.signal) == (1, None, None)


def test_the_c_librarys_word_tells_the_status(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    for rank in range(3):
        launcher.start(rank)
    launcher.end(0, status=0)
    assert launcher.below.first_to_fail() is None
    launcher.end(1, status=3)
    first = wait_for(launcher.below.first_to_fail)
    assert (first.rank, first.exit.code) == (1, 3)
    launcher.end(2)
