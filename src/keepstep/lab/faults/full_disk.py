# SPDX-License-Identifier: Apache-2.0
"""The checkpoints go to a disk of 256 kB, which an older one has filled."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SIZE = 256 << 10


def prepare(run: Run) -> None:
    disk = run.work / "checkpoints"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)], check=True)
    (disk / "older.bin").write_bytes(bytes(SIZE))
    for args in run.args:
        args += ["--save", str(disk / run.scenario.checkpoint)]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    disk = run.work / "checkpoints"
    if os.statvfs(disk).f_bavail:
        raise Unproven("there is room on the checkpoints' disk")
    return f"of {SIZE} bytes on the checkpoints' disk none is free"
