# SPDX-License-Identifier: Apache-2.0
"""Bits that change while replicas of a model train: how many faults does the guard find, and whom does it name?

Three replicas train small models, one round after the other. In most rounds bits of one replica change: once in memory
after the exchange of gradients; always in one operation; or once in one operation. No hook of keepstep is involved.
Healthy rounds lie between, and their losses are compared with a run without the guard.

    python -m benchmarks.silent_faults --rounds 100
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.silent_jobs.faults import AFTER, BEFORE, BUDDY, LOOKS, STUCK, SilentFault, fault

JOB = Path(__file__).parent / "silent_jobs" / "job.py"
FRAMEWORKS = {"torch": "torch, 3 ranks", "tensorflow": "tensorflow, 3 devices of one process"}
FRAMEWORKS |= {"workers": "tensorflow, 3 workers", "jax": "jax, 3 processes"}
REPLICAS = 3
PATIENCE_S = 3_600.0
STRUCK = re.compile(r"struck (\d+) (\d+) (.+)")
LOSS = re.compile(r"loss (\d+) (\S+)")
FACTS = ("ReplicaOdd", "ComputedOdd")


def run(framework: str, rounds: int, folder: Path, *, guard: bool) -> str:
    """What all processes print."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    env |= {"KEEPSTEP": "off"} if not guard else {
        "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": str(folder),
        "KEEPSTEP_FINGERPRINTS": str(LOOKS), "KEEPSTEP_BUDDY": str(BUDDY),
    }  # fmt: skip
    processes = 1 if framework == "tensorflow" else REPLICAS
    if processes > 1:
        env |= {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, str(JOB), framework, str(rounds), *([] if guard else ["--healthy"])]
    started = []
    for rank in range(processes):
        own = env | ({"RANK": str(rank)} if processes > 1 else {})
        with (folder / f"out-{rank}").open("wb") as out:
            started.append(subprocess.Popen(command, env=own, stdout=out, stderr=subprocess.STDOUT, cwd=folder))
    try:
        codes = [each.wait(PATIENCE_S) for each in started]
    finally:
        for each in started:
            with contextlib.suppress(ProcessLookupError):
                each.kill()
    said = "\n".join(each.read_text(errors="replace") for each in sorted(folder.glob("out-*")))
    if any(codes):
        raise RuntimeError(f"{framework} ended with {codes}: {said[-3000:]}")
    return said


def found_in(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """What the guards wrote down, by round; values that are not finite, under -2."""
    found: dict[int, list[dict[str, Any]]] = {}
    for path in folder.glob("*.notes.jsonl"):
        for line in path.read_text(errors="replace").splitlines():
            note = json.loads(line)
            if note["fact"] in FACTS:
                number = re.search(r"round_(\d+)", note["fields"]["tensor"])
                found.setdefault(int(number[1]) if number else -1, []).append(note["fields"])
            elif note["fact"] == "FirstNonFinite":
                said = {"ranks": [note["rank"]["index"]], "tensor": note["fields"]["layer"] or ""}
                found.setdefault(-2, []).append(note["fields"] | said)
    return found


class Tally:
    """The faults of one kind in one framework."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.steps: list[int] = []

    def add(self, drawn: SilentFault, step: int, name: str, seen: list[dict[str, Any]]) -> bool:
        self.counted["struck"] += 1
        self.counted[drawn.bits_are] += 1
        if not seen:
            return False
        first = min(seen, key=lambda each: int(each["step"]))
        self.counted["found"] += 1
        is_right = first["ranks"] == [drawn.replica] or first.get("devices") == [f"CPU:{drawn.replica}"]
        self.counted["rank"] += is_right
        is_named = name in first["tensor"] or first["tensor"] in name
        self.counted["tensor"] += is_named
        if not is_right or not is_named:
            print(f"    {name}, replica {drawn.replica} ({drawn.bits_are}), but said was {first}", flush=True)
        self.steps.append(max(0, int(first["step"]) - step))
        return True

    def row(self, framework: str, where: str) -> str:
        kinds = ", ".join(f"{self.counted[kind]} {kind}" for kind in ("one bit", "several bits", "not finite"))
        steps = f"{statistics.median(self.steps):.0f}, {max(self.steps)}" if self.steps else ""
        numbers = " | ".join(str(self.counted[each]) for each in ("found", "rank", "tensor"))
        return f"| {FRAMEWORKS[framework]} | {where} | {self.counted['struck']} ({kinds}) | {numbers} | {steps} |"


def series(framework: str, rounds: int) -> tuple[list[str], str]:
    """The rows of the faults, and that of the healthy rounds."""
    with tempfile.TemporaryDirectory(prefix="keepstep-silent-") as place:
        with_guard, without = Path(place) / "on", Path(place) / "off"
        with_guard.mkdir(), without.mkdir()
        said = run(framework, rounds, with_guard, guard=True)
        plain = run(framework, rounds, without, guard=False)
        found = found_in(with_guard)
    struck = {int(number): (int(step), name) for number, step, name in STRUCK.findall(said)}
    tallies, healthy, alarms = {where: Tally() for where in (AFTER, STUCK, BEFORE)}, 0, len(found.get(-1, []))
    for number in range(rounds + 1):
        drawn, seen = fault(framework, number, REPLICAS), found.get(number, [])
        if drawn is None or number not in struck:
            healthy += 1
            alarms += bool(seen)
            continue
        step, name = struck[number]
        later = [each for each in found.get(-2, []) if step <= int(each["step"]) <= step + 2]
        if not tallies[drawn.where].add(drawn, step, name, seen or later):
            print(f"    {framework}: round {number} not found: {drawn}", flush=True)
    losses = set(LOSS.findall(said))
    same = "yes" if losses and losses <= set(LOSS.findall(plain)) else "NO"
    rows = [each.row(framework, where) for where, each in tallies.items() if each.counted]
    return rows, f"| {FRAMEWORKS[framework]} | {healthy} | {alarms} | {same} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="in each framework (20)")
    parser.add_argument("--only", choices=FRAMEWORKS, action="append", help="these frameworks")
    asked = parser.parse_args()
    today, load = datetime.date.today(), os.getloadavg()[0]
    print(f"{today}, {platform.machine()}, {os.cpu_count()} cores, load {load:.0f}.")
    print(f"A look every {LOOKS} steps, a buddy step every {BUDDY} (torch).\n")
    print("| framework | where | faults | found | rank right | tensor right | steps until found: median, most |")
    print("|---|---|---|---|---|---|---|")
    healthy = []
    for framework in asked.only or FRAMEWORKS:
        rows, of_healthy = series(framework, asked.rounds)
        print("\n".join(rows), flush=True)
        healthy.append(of_healthy)
    print("\n| framework | healthy rounds | alarms | same losses as without the guard |")
    print("|---|---|---|---|")
    print("\n".join(healthy))


if __name__ == "__main__":
    main()
