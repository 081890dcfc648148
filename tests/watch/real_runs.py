# SPDX-License-Identifier: Apache-2.0
"""Small real runs of `keepstep run`, without a framework, whose folders are looked at."""

from __future__ import annotations

from pathlib import Path

from tests.supervise.starting import Running

SCRIPT = """
import os, sys, time
import keepstep
rank, fault = int(os.environ["RANK"]), "{fault}"
for step in keepstep.guard.attach().steps(range({steps})):
    if rank == 1 and step == 20:
        if fault == "error":
            raise KeyError("<img src=x onerror=alert(1)>")
        if fault == "hang":
            time.sleep(600)
    time.sleep(0.02)
print("done")
"""


def start(folder: Path, fault: str = "", *options: str, steps: int = 40) -> Running:
    """Rank 1 fails at step 20, as asked."""
    folder.mkdir(exist_ok=True)
    return Running(folder, "-n", "2", *options, script=SCRIPT.format(fault=fault, steps=steps))
