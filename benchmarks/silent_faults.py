# SPDX-License-Identifier: Apache-2.0
"""Bits that change while replicas of a model train: how many faults does the guard find, and whom does it name?

Three replicas train small models, one round after the other. In most rounds bits of one replica change: once in memory
after the exchange of gradients; always in one operation; or once in one operation. No hook of keepstep is involved.
Healthy rounds lie between, and their losses are compared with a run without the guard.

    python -m benchmarks.silent_faults --rounds 100 --results found.jsonl

Rounds are trained by programs of twenty. With ``--results``, what each program showed is added to a file, and a series
that was cut short goes on where it was; ``--jobs`` trains several programs side by side.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.silent_jobs.faults import AFTER, BEFORE, BUDDY, LOOKS, STUCK, SilentFault, fault

JOB = Path(__file__).parent / "silent_jobs" / "job.py"
FRAMEWORKS = {"torch": "torch, 3 ranks", "tensorflow": "tensorflow, 3 devices of one process"}
FRAMEWORKS |= {"workers": "tensorflow, 3 workers", "jax": "jax, 3 processes"}
REPLICAS, AT_ONCE = 3, 20
"""Of a program: replicas, and rounds."""
PATIENCE_S = 3_600.0
STRUCK = re.compile(r"struck (\d+) (\d+) (.+)")
LOSS = re.compile(r"loss (\d+) (\S+)")
FACTS = ("ReplicaOdd", "ComputedOdd", "ReplicasNotFinite")
FOUND = ("found", "rank", "tensor")


def run(framework: str, rounds: range, folder: Path, *, guard: bool) -> str:
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
    command = [sys.executable, str(JOB), framework, str(rounds[0]), str(rounds[-1]), *([] if guard else ["--healthy"])]
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
    """What the guards wrote down, by round; values that are not finite, under -2, and losses, under -3."""
    found: dict[int, list[dict[str, Any]]] = {}
    for path in folder.glob("*.notes.jsonl"):
        for line in path.read_text(errors="replace").splitlines():
            note = json.loads(line)
            if note["fact"] in FACTS:
                number = re.search(r"round_(\d+)", note["fields"]["tensor"])
                found.setdefault(int(number[1]) if number else -1, []).append(note["fields"])
            elif note["fact"] == "FirstNonFinite":
                layer = (note["fields"]["layer"] or "").removeprefix("module.")
                said = {"ranks": [note["rank"]["index"]], "tensor": layer}
                found.setdefault(-2, []).append(note["fields"] | said)
            elif note["fact"] == "LossNotFinite":
                found.setdefault(-3, []).append(note["fields"])
    return found


def told(
    drawn: SilentFault, struck: tuple[int, str], seen: list[dict[str, Any]], losses: list[dict[str, Any]]
) -> dict[str, Any]:
    """What came of one fault. ``losses``: what was said of losses about then; they may name whose was lost first."""
    step, name = struck
    result: dict[str, Any] = {"where": drawn.where, "bits": drawn.bits_are, "found": bool(seen)}
    if seen:
        first = min(seen, key=lambda each: int(each["step"]))
        whose = [([*each.get("ranks", each.get("began", ()))], [*each.get("devices", ())]) for each in (first, *losses)]
        result["rank"] = any(ranks == [drawn.replica] or on == [f"CPU:{drawn.replica}"] for ranks, on in whose)
        result["tensor"] = name in first["tensor"] or first["tensor"] in name
        result["steps"] = max(0, int(first["step"]) - step)
        if not result["rank"] or not result["tensor"]:
            result["said"] = f"{name}, replica {drawn.replica} ({drawn.bits_are}), but said was {first}"
    else:
        result["said"] = f"not found: {drawn}"
    return result


def series(framework: str, rounds: range) -> dict[str, Any]:
    """What came of these rounds, as JSON can hold it."""
    result: dict[str, Any] = {"framework": framework, "first": rounds[0], "last": rounds[-1], "faults": {}}
    with tempfile.TemporaryDirectory(prefix="keepstep-silent-") as place:
        with_guard, without = Path(place) / "on", Path(place) / "off"
        with_guard.mkdir(), without.mkdir()
        try:
            said = run(framework, rounds, with_guard, guard=True)
            plain = run(framework, rounds, without, guard=False)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return result | {"broke": str(error)}
        found = found_in(with_guard)
    struck = {int(number): (int(step), name) for number, step, name in STRUCK.findall(said)}
    healthy, alarms = 0, len(found.get(-1, []))
    for number in rounds:
        drawn, seen = fault(framework, number, REPLICAS), found.get(number, [])
        if drawn is None or number not in struck:
            healthy += 1
            alarms += bool(seen)
            continue
        step = struck[number][0]
        later = [each for each in found.get(-2, []) if step <= int(each["step"]) <= step + 2]
        losses = [each for each in found.get(-3, []) if step <= int(each["step"]) <= step + 2]
        result["faults"][number] = told(drawn, struck[number], seen or later, losses)
    losses = set(LOSS.findall(said))
    return result | {"healthy": healthy, "alarms": alarms, "same": bool(losses) and losses <= set(LOSS.findall(plain))}


def tables(results: Sequence[dict[str, Any]]) -> str:
    rows = ["| framework | where | faults | found | rank right | tensor right | steps until found: median, most |"]
    rows += ["|---|---|---|---|---|---|---|"]
    healthy = ["\n| framework | healthy rounds | alarms | same losses as without the guard |", "|---|---|---|---|"]
    for framework, title in FRAMEWORKS.items():
        of_it = [each for each in results if each["framework"] == framework and "broke" not in each]
        for where in (AFTER, STUCK, BEFORE):
            if of_kind := [one for each in of_it for one in each["faults"].values() if one["where"] == where]:
                kinds = Counter(one["bits"] for one in of_kind)
                bits = ", ".join(f"{kinds[kind]} {kind}" for kind in ("one bit", "several bits", "not finite"))
                numbers = " | ".join(str(sum(one.get(each, False) for one in of_kind)) for each in FOUND)
                steps = [one["steps"] for one in of_kind if one["found"]]
                late = f"{statistics.median(steps):.0f}, {max(steps)}" if steps else ""
                rows.append(f"| {title} | {where} | {len(of_kind)} ({bits}) | {numbers} | {late} |")
        if of_it:
            many, alarms = (sum(each[what] for each in of_it) for what in ("healthy", "alarms"))
            same = "yes" if all(each["same"] for each in of_it) else "NO"
            healthy.append(f"| {title} | {many} | {alarms} | {same} |")
    notes = [
        f"    {each['framework']}: round {number}: {one['said']}"
        for each in results
        for number, one in each["faults"].items()
        if "said" in one and one["where"] != BEFORE
    ]
    notes += [
        f"    {each['framework']}: rounds {each['first']} to {each['last']} broke: {each['broke'][-300:]}"
        for each in results
        if "broke" in each
    ]
    return "\n".join([*rows, *healthy, *notes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="in each framework (20)")
    parser.add_argument("--first", type=int, default=0, help="the first round (0): other rounds, other faults")
    parser.add_argument("--only", choices=FRAMEWORKS, action="append", help="these frameworks")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (1)")
    parser.add_argument(
        "--results", type=Path, help="a file to which each program's rounds are added, and that is read"
    )
    asked = parser.parse_args()
    today, load = datetime.date.today(), os.getloadavg()[0]
    print(f"{today}, {platform.machine()}, {os.cpu_count()} cores, load {load:.0f}.")
    print(f"A look every {LOOKS} steps, a buddy step every {BUDDY} (torch).\n", flush=True)
    results = []
    if asked.results is not None and asked.results.exists():
        results = [json.loads(line) for line in asked.results.open()]
    known = {(each["framework"], each["first"]) for each in results}
    last = asked.first + asked.rounds + 1
    todo = [
        (framework, range(first, min(first + AT_ONCE, last)))
        for first in range(asked.first, last, AT_ONCE)
        for framework in asked.only or FRAMEWORKS
        if (framework, first) not in known
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        for done in as_completed([pool.submit(series, *each) for each in todo]):
            results.append(result := done.result())
            if asked.results is not None:
                with asked.results.open("a") as stream:
                    stream.write(json.dumps(result) + "\n")
    print(tables(results))


if __name__ == "__main__":
    main()
