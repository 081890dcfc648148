# SPDX-License-Identifier: Apache-2.0
"""/dev/shm holds 64 kB only: not even the semaphores of the loader's queues fit."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SIZE = 64 << 10


def prepare(run: Run) -> None:
    # seen by this run only: the lab has a mount namespace of its own
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "shm", "/dev/shm"], check=True)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    seen = os.statvfs("/dev/shm")
    if seen.f_blocks * seen.f_frsize != SIZE:
        raise Unproven(f"/dev/shm has {seen.f_blocks * seen.f_frsize} bytes")
    return f"/dev/shm of the ranks has {SIZE} bytes"
