# SPDX-License-Identifier: Apache-2.0
"""What the guard and its companion cost in the first steps of a run, the companion's start included, in processor time.

Two ranks use a core each for 300 steps of 13 ms, with the guard and without it, in turns. Processor time of the ranks,
of what they start, and of the companion: on cores that are fully used, each millisecond of it is one that a rank loses.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from keepstep.base.proc_stat import TICKS
from keepstep.guard.companion import living

RANKS, STEPS, STEP_S, PAIRS = 2, 300, 0.013, 7
BAR = 0.5

_RANK = """
import os, resource, sys, time
guarded = os.environ["KEEPSTEP"] == "on"
if guarded:
    import keepstep
    guard = keepstep.guard.attach()
began = time.process_time()
steps = guard.steps(range({steps})) if guarded else range({steps})
for _ in steps:
    end = time.thread_time() + {step_s}
    while time.thread_time() < end:
        sum(range(500))
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.process_time() - began + children.ru_utime + children.ru_stime, flush=True)
sys.stdin.readline()
"""


def used_s(guarded: bool) -> float:
    """Processor time of the first steps, of all ranks together and of the companion."""
    place = Path(tempfile.mkdtemp(prefix="keepstep-bench-"))
    env = {**os.environ, "KEEPSTEP": "on" if guarded else "off", "KEEPSTEP_DIR": str(place), "WORLD_SIZE": str(RANKS)}
    code = _RANK.format(steps=STEPS, step_s=STEP_S)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**env, "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    total = sum(float(rank.stdout.readline()) for rank in ranks if rank.stdout is not None)
    folders = [place, *(path for path in place.iterdir() if path.is_dir())]
    companions = {pid for folder in folders if (pid := living(folder)) is not None}
    assert bool(companions) == guarded, "a companion watches ranks that have a guard"
    total += sum(_processor_s(pid) for pid in companions)
    for rank in ranks:
        rank.communicate("\n")
    shutil.rmtree(place, ignore_errors=True)
    return total


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> str:
    """One line for the table of results."""
    without, more = [], []
    for _ in range(PAIRS):
        without.append(used_s(guarded=False))
        more.append(used_s(guarded=True) - without[-1])
    share = statistics.median(more) / statistics.median(without) * 100
    return (
        f"The first {STEPS} steps of {STEP_S * 1000:.0f} ms on {RANKS} ranks, the companion and its start included: "
        f"{statistics.median(more) * 1000:.0f} ms of processor time more (median of {PAIRS} pairs, from "
        f"{min(more) * 1000:.0f} to {max(more) * 1000:.0f}), {share:+.2f} % (bar: {BAR} %)."
    )


if __name__ == "__main__":
    print(main())
