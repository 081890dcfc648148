# SPDX-License-Identifier: Apache-2.0
"""/dev/shm of 1 MB, as in a container without --shm-size, is filled by another program while the job runs."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SIZE = 1 << 20


def prepare(run: Run) -> None:
    # seen by this run only: the lab has a mount namespace of its own
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "shm", "/dev/shm"], check=True)


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        with open("/dev/shm/other.bin", "wb", buffering=0) as file:
            try:
                while not run.over.is_set():
                    file.write(bytes(4096))
            except OSError:
                run.strike("/dev/shm is full")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    seen = os.statvfs("/dev/shm")
    if seen.f_blocks * seen.f_frsize != SIZE or not any("is full" in what for _, what in run.strikes()):
        raise Unproven("/dev/shm was not filled")
    return f"/dev/shm of {SIZE} bytes was filled while the job ran"
