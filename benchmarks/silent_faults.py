# SPDX-License-Identifier: Apache-2.0
"""Bits that change in the replicas of a model, after the gradients were exchanged: how many does the guard find?

Three replicas train small models, one round after the other. In every other round bits of one replica's memory change,
from outside the framework. The rounds between are healthy, and their losses are compared with a run without the guard.

    python -m benchmarks.silent_faults --faults 300
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.silent_jobs.faults import LOOKS, STEPS, SilentFault, fault

JOB = Path(__file__).parent / "silent_jobs" / "job.py"
FRAMEWORKS = ("torch", "tensorflow", "jax")
REPLICAS = 3
PATIENCE_S = 3_600.0
LINE = re.compile(r"(struck|loss) (\d+) (\S+)")


def run(framework: str, rounds: int, folder: Path, *, guard: bool) -> str:
    """What all processes print."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    env |= {"KEEPSTEP": "off"} if not guard else {
        "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": str(folder), "KEEPSTEP_FINGERPRINTS": str(LOOKS)
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


def found_in(folder: Path) -> dict[int, list[dict[str, object]]]:
    """What the guards wrote down, by round."""
    found: dict[int, list[dict[str, object]]] = {}
    for path in folder.glob("*.notes.jsonl"):
        for line in path.read_text(errors="replace").splitlines():
            note = json.loads(line)
            if note["fact"] == "ReplicaOdd":
                number = re.search(r"round_(\d+)", note["fields"]["tensor"])
                found.setdefault(int(number[1]) if number else -1, []).append(note["fields"])
    return found


def is_right(seen: dict[str, object], drawn: SilentFault) -> bool:
    ranks, devices = seen["ranks"], seen["devices"]
    assert isinstance(ranks, list) and isinstance(devices, list)
    return bool(seen["majority"]) and (ranks == [drawn.replica] or devices == [f"CPU:{drawn.replica}"])


def series(framework: str, faults: int) -> str:
    rounds = 2 * faults
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="keepstep-silent-") as place:
        with_guard, without = Path(place) / "on", Path(place) / "off"
        with_guard.mkdir(), without.mkdir()
        said = LINE.findall(run(framework, rounds, with_guard, guard=True))
        plain = LINE.findall(run(framework, rounds, without, guard=False))
        struck = {int(number): name for what, number, name in said if what == "struck"}
        found = found_in(with_guard)
    for number in range(1, rounds + 1):
        drawn, seen = fault(number, REPLICAS), found.get(number, [])
        if drawn is None:
            counted["healthy"] += 1
            counted["alarms"] += bool(seen)
            continue
        counted["struck"] += number in struck
        counted[drawn.kind] += 1
        if not seen:
            print(f"    {framework}: round {number} not found: {drawn}", flush=True)
            continue
        first = min(seen, key=lambda each: int(str(each["step"])))
        counted["found"] += 1
        counted["next"] += (int(str(first["step"])) - 1) % STEPS + 1 <= 3 * LOOKS
        counted["rank"] += is_right(first, drawn)
        counted["tensor"] += struck.get(number, "?") in str(first["tensor"])
    losses = {(number, value) for what, number, value in said if what == "loss"}
    counted["same"] = losses <= {(number, value) for what, number, value in plain if what == "loss"}
    kinds = ", ".join(f"{counted[kind]} {kind}" for kind in ("one bit", "several bits", "not finite"))
    return (
        f"| {framework} | {counted['struck']} ({kinds}) | {counted['found']} | {counted['next']} | {counted['rank']} | "
        f"{counted['tensor']} | {counted['healthy']} | {counted['alarms'] + len(found.get(-1, []))} | "
        f"{'yes' if counted['same'] else 'NO'} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20, help="in each framework (20)")
    parser.add_argument("--only", choices=FRAMEWORKS, action="append", help="these frameworks")
    asked = parser.parse_args()
    print("| framework | faults | found | at next look | rank right | tensor right | healthy | alarms | same losses |")
    print("|---|---|---|---|---|---|---|---|---|")
    for framework in asked.only or FRAMEWORKS:
        print(series(framework, asked.faults), flush=True)


if __name__ == "__main__":
    main()
