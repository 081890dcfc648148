# SPDX-License-Identifier: Apache-2.0
"""Programs with one planted bug each, made smaller: does the bug stay the reason, and how small do they become?

The seed draws the rank and the step of each bug, which only acts while `BUG` is true. A result has **slipped** if its
bug is gone, or if it still fails with `BUG = False`.

    python -m benchmarks.shrink_series --cases 6 --seed 1 --budget 10m
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parent / "shrink_programs"
RANKS = 4
BUGS = {
    "exception": ("LABELS", "y = y + 6 if BUG and rank == {rank} and step == {step} else y"),
    "NaN": ("VALUE", 'loss = loss * float("nan") if BUG and rank == {rank} and step == {step} else loss'),
    "crash": ("NATIVE", "ctypes.string_at(0) if BUG and rank == {rank} and step == {step} else None"),
    "mismatch": ("COLLECTIVE", "dist.all_reduce(torch.zeros(3 if BUG and rank == {rank} and step == {step} else 2))"),
    "hang": (
        "COLLECTIVE",
        "dist.all_reduce(loss.detach()) if not (BUG and rank == {rank}) and step == {step} else None",
    ),
    "uneven data": ("LENGTH", "batches.count -= 5 if BUG and rank == {rank} else 0"),
}
PATIENCE_S = 7_200.0


def planted(folder: Path, kind: str, rank: int, step: int) -> None:
    """The program with its bug."""
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, folder)
    mark, bug = BUGS[kind]
    path = folder / "train.py"
    text = path.read_text().replace(f"# {mark}\n", f"{bug.format(rank=rank, step=step)}\n")
    path.write_text(re.sub(r" +# [A-Z]+\n", "", text))


def tried(kind: str, rank: int, step: int, budget: str) -> dict[str, object]:
    """What became of one program."""
    with tempfile.TemporaryDirectory(prefix="keepstep-series-") as place:
        folder = Path(place)
        planted(folder, kind, rank, step)
        command = [sys.executable, "-m", "keepstep", "shrink", "--json", "--budget", budget, "--", "keepstep", "run"]
        command += ["-n", str(RANKS), "--", sys.executable, "train.py"]
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
        if found.returncode not in (0, 1):
            return {"kind": kind, "error": found.stderr[-500:]}
        said = json.loads(found.stdout)
        result = Path(said["folder"])
        text = (result / "train.py").read_text()
        said |= {"kind": kind, "bug_left": text.count("BUG") > 1}
        (result / "train.py").write_text(text.replace("BUG = True", "BUG = False"))
        again = [sys.executable, "-m", "keepstep", "run", "-q", "--no-check", "--max-attempts", "1"]
        again += ["-n", str(said["ranks"]), "--", sys.executable, "train.py"]
        ran = subprocess.run(again, cwd=result, capture_output=True, timeout=PATIENCE_S)
        return {**said, "mended_passes": ran.returncode == 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--kinds", nargs="*", default=list(BUGS))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    luck, found = random.Random(asked.seed), []
    for number in range(asked.cases):
        kind = asked.kinds[number % len(asked.kinds)]
        one = tried(kind, luck.randrange(1, RANKS), luck.randrange(3, 20), asked.budget)
        found.append(one)
        names = (
            "error",
            "cause",
            "lines_before",
            "lines",
            "ranks",
            "needs",
            "trials",
            "seconds",
            "bug_left",
            "mended_passes",
        )
        print(f"{kind}: " + ", ".join(f"{name} {one[name]}" for name in names if name in one), flush=True)
    done = [each for each in found if "error" not in each]
    slips = sum(not (each["bug_left"] and each["mended_passes"]) for each in done)
    small = sum(int(str(each["lines"])) <= 60 for each in done)
    trials = statistics.median([int(str(each["trials"])) for each in done] or [0])
    print(
        f"{len(found)} programs, {len(done)} made smaller, {slips} slips, {small} with at most 60 lines, "
        f"median {trials} trials"
    )


if __name__ == "__main__":
    main()
