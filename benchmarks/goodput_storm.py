# SPDX-License-Identifier: Apache-2.0
"""How much of the time that a storm of faults costs has an explanation.

    python -m benchmarks.goodput_storm [--faults 20] [--seed 1] [--keep DIR]

Real runs of `keepstep run` with two ranks of PyTorch (DDP, gloo), each hit by ten faults in turn: a rank dies in one
of several ways, hangs, waits for its batches, computes longer, saves for long, or the run is paused. Which, when and
whom follows from the printed seed; an exception comes last, because the run is not started again after one. The buckets
must add up to the time of the run within 0.5 %.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from keepstep.analyze.goodput import goodput
from keepstep.signals.goodput import ORDINARILY
from keepstep.store.run_folders import runs

JOB = Path(__file__).parent / "storm_jobs" / "faulty_job.py"
KINDS = ("kill", "exception", "abort", "exit", "hang", "input", "compute", "save", "pause", "stall")
EVERY = 30
"""Steps between faults."""


def storms(faults: int, seed: int) -> list[list[tuple[int, str, int]]]:
    """For each run: after which step, what, and to which rank."""
    chance = random.Random(seed)
    parts = []
    for begin in range(0, faults, len(KINDS)):
        kinds = chance.sample(KINDS, min(len(KINDS), faults - begin))
        parts.append(sorted(kinds, key="exception".__eq__))
    return [
        [(EVERY * (n + 1) + 2 + chance.randrange(6), kind, chance.randrange(2)) for n, kind in enumerate(part)]
        for part in parts
    ]


def run(place: Path, faults: list[tuple[int, str, int]], limit_s: float) -> Path:
    """Its run folder."""
    place.mkdir(parents=True)
    words = [f"{step}:{kind}:{rank}" for step, kind, rank in faults]
    command = [sys.executable, "-m", "keepstep", "run", "--no-check", "-n", "2", "--max-attempts", "12"]
    command += ["--", sys.executable, str(JOB.resolve()), *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    with (place / "terminal.log").open("wb") as log:
        subprocess.run(command, cwd=place, stdout=log, stderr=log, timeout=limit_s, env=env)
    return runs(place / ".keepstep" / "runs")[-1].path


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--faults", type=int, default=20)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--limit", type=float, default=900.0, help="seconds for one run")
    asked.add_argument("--keep", type=Path, help="where the run folders stay")
    given = asked.parse_args()
    print(f"seed {given.seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    lost = unexplained = usual = 0.0
    struck = 0
    with tempfile.TemporaryDirectory() as temporary:
        for number, faults in enumerate(storms(given.faults, given.seed)):
            place = (given.keep or Path(temporary)) / f"storm{number}"
            found = goodput(run(place, faults, given.limit))
            struck += len(list(place.glob("struck-*")))
            whole = found.ranks * found.wall_s
            off = abs(sum(found.buckets.values()) - whole) / whole
            lost, unexplained = lost + found.lost_s, unexplained + found.unexplained_s
            usual += sum(seconds for (_, why), seconds in found.lost.items() if why == ORDINARILY)
            print(" ".join(f"{kind}@{step}/{rank}" for step, kind, rank in faults))
            print(f"  {whole:.0f} s, training {found.share or 0:.0%}, buckets off by {off:.2%}", flush=True)
            for (bucket, why), seconds in sorted(found.lost.items(), key=lambda item: -item[1]):
                print(f"  {seconds:7.1f} s  {bucket.words}: {why[:80]}", flush=True)
    share = 1 - unexplained / lost if lost else 1.0
    print(f"{struck} faults struck, lost {lost:.0f} s (of it {usual:.0f} s part of every run), {share:.1%} explained")
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
