# SPDX-License-Identifier: Apache-2.0
"""The listed programs: forecast anywhere, measured on a GPU, compared; and yes or no at limits around the peak.

    PYTHONPATH=src python -m benchmarks.memory_forecast --strangers forecast --json forecasts.json
    PYTHONPATH=src python -m benchmarks.memory_forecast --strangers measure --json measured.json --jobs 4
    PYTHONPATH=src python -m benchmarks.memory_forecast --strangers limits --json measured.json --jobs 4
    PYTHONPATH=src python -m benchmarks.memory_forecast --strangers compare forecasts.json measured.json

`limits` adds to the file of `measure`: each program runs again with its process held to 95 and to 105 % of its measured
peak (``set_per_process_memory_fraction``). The forecast's answer is whether the replayed allocator gets by with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.memory_strangers.fetch import listed
from keepstep.check.memory.devices import Device
from keepstep.check.memory.forecast import events_of, forecast, kinds_of, least_room
from keepstep.check.memory.try_script import try_script
from keepstep.cluster.launch_line import LaunchLine

LIMIT_S = 600.0
STEPS = 4
LIMITS = (0.95, 1.05)
ONE_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
MEASURE = """
import json, os, runpy, sys
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
steps, limit = int(sys.argv[1]), int(sys.argv[2])
sys.argv = sys.argv[3:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
total = torch.cuda.mem_get_info()[1]
if limit:
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
class Enough(BaseException): pass
done = []
def stepped(*_):
    done.append(1)
    if len(done) >= steps:
        raise Enough
register_optimizer_step_post_hook(stepped)
ended = "end"
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Enough:
    ended = "steps"
except torch.cuda.OutOfMemoryError as error:
    ended = "full"
seen = {"ended": ended, "steps": len(done), "total": total, "name": torch.cuda.get_device_name()}
seen |= {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
seen |= {"torch": torch.__version__}
print("\\nMEASURED " + json.dumps(seen), flush=True)
os._exit(0)
"""


class Case:
    """One command line of one program, in its folder."""

    def __init__(self, programs: Path, name: str, about: dict[str, Any], case: dict[str, Any]) -> None:
        root = (programs / name).resolve()
        self.name: str = case["name"]
        self.words: list[str] = case["line"].split()
        self.folder = root / about.get("folder", ".")
        self.launched = bool(case.get("launched"))
        self.env = {"PYTHONPATH": str(root / about["path"])} if "path" in about else {}


def cases(programs: Path, only: str) -> list[Case]:
    found = [Case(programs, name, about, each) for name, about in listed().items() for each in about["cases"]]
    return [each for each in found if only in each.name]


@contextlib.contextmanager
def inside(case: Case) -> Iterator[None]:
    before, here = dict(os.environ), Path.cwd()
    os.chdir(case.folder)
    os.environ.update(case.env)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def forecasts(found: list[Case], device: Device) -> dict[str, Any]:
    """One after the other; each also with the least that the replayed allocator gets by with."""
    rows: dict[str, Any] = {}
    for case in found:
        begun = time.monotonic()
        script, *arguments = case.words
        ranks = 1 if case.launched else None
        line = LaunchLine(python=sys.executable, script=script, arguments=tuple(arguments), ranks=ranks)
        with inside(case):
            tried = try_script(line, device, 1, LIMIT_S)
        took = time.monotonic() - begun
        if tried.seen.get("ended") != "steps":
            print(f"{case.name:34} {tried.why or tried.seen.get('error')}", *tried.said[-3:], sep="\n    ", flush=True)
            continue
        made = forecast(tried.seen, device, 1)
        row = {"allocated": made.allocated, "reserved": made.reserved, "low": made.low, "high": made.high}
        kinds = kinds_of(tried.seen)
        least = least_room(events_of(tried.seen, device, kinds), kinds, made.reserved)
        row |= {"least": least, "parts": dict(made.parts), "took_s": took}
        rows[case.name] = row | {"torch": tried.seen["torch"], "guesses": tried.seen["guesses"]}
        print(f"{case.name:34}{made.allocated >> 20:>9,}{made.reserved >> 20:>9,} MiB{took:>8.1f} s", flush=True)
    return rows


def measured(case: Case, limit: int = 0) -> dict[str, Any]:
    """The same command line on the GPU here, for a few steps."""
    command = [sys.executable, "-c", MEASURE, str(STEPS), str(limit), *case.words]
    port = str(29600 + hash((case.name, limit)) % 1000)
    env = {**os.environ, **case.env, **({**ONE_RANK, "MASTER_PORT": port} if case.launched else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=case.folder, timeout=LIMIT_S)
    for line in done.stdout.splitlines():
        if line.startswith("MEASURED "):
            found: dict[str, Any] = json.loads(line.removeprefix("MEASURED "))
            return found
    return {"ended": "error", "error": done.stderr[-800:]}


def measurements(found: list[Case], jobs: int) -> dict[str, Any]:
    with ThreadPoolExecutor(jobs) as pool:
        rows = dict(zip((each.name for each in found), pool.map(measured, found), strict=True))
    for name, row in rows.items():
        print(f"{name:34}{row['ended']:>7}", row.get("reserved", 0) >> 20, "MiB", row.get("error", ""))
    return rows


def add_limits(found: list[Case], rows: dict[str, Any], jobs: int) -> None:
    """Each program at each limit: whether it ended with the device full."""
    known = [case for case in found if "reserved" in rows.get(case.name, {})]
    asked = [(case, int(rows[case.name]["reserved"] * part)) for case in known for part in LIMITS]
    with ThreadPoolExecutor(jobs) as pool:
        answers = list(pool.map(lambda pair: measured(*pair)["ended"], asked))
    for (case, limit), ended in zip(asked, answers, strict=True):
        rows[case.name].setdefault("limits", []).append([limit, ended])
        print(f"{case.name:34}{limit >> 20:>9,} MiB  {ended}")


def compare(forecast_: dict[str, Any], measured_: dict[str, Any]) -> None:
    errors, right, asked = [], 0, 0
    print(f"{'MiB':34}{'forecast':>10}{'measured':>10}{'error':>8}   fits into 95 and 105 % of it")
    for name, real in measured_.items():
        made = forecast_.get(name)
        if made is None or "reserved" not in real:
            print(f"{name:34}{'no forecast' if made is None else 'not measured: ' + real['error'][-60:]}")
            continue
        off = made["reserved"] / real["reserved"] - 1
        errors.append(abs(off))
        answers = []
        for limit, ended in real.get("limits", ()):
            said, is_so = limit >= made["least"], ended != "full"
            asked, right = asked + 1, right + (said == is_so)
            answers.append(("yes" if is_so else "no") + ("" if said == is_so else " (said otherwise)"))
        row = f"{name:34}{made['reserved'] >> 20:>10,}{real['reserved'] >> 20:>10,}{off:>+8.1%}"
        print(f"{row}   {', '.join(answers)}")
    if errors:
        print(f"{len(errors)} cases: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}")
        print(f"yes or no right at {right} of {asked} limits")


def main(asked: Any, device: Device) -> None:
    if asked.strangers == "compare":
        compare(*(json.loads(Path(each).read_text(encoding="utf-8")) for each in asked.files))
        return
    found = cases(asked.programs, asked.only)
    target = Path(asked.json)
    if asked.strangers == "forecast":
        rows = forecasts(found, device)
    elif asked.strangers == "measure":
        rows = measurements(found, asked.jobs)
    else:
        rows = json.loads(target.read_text(encoding="utf-8"))
        add_limits(found, rows, asked.jobs)
    target.write_text(json.dumps(rows, indent=1), encoding="utf-8")
