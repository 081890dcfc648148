# SPDX-License-Identifier: Apache-2.0
"""In how many broken runs the first screens of `keepstep top` (80 x 24) and the page (1280 x 800) name rank and cause.

    python -m benchmarks.first_screens [--keep DIR] [--lab N] [--seed 1] [--minutes 30]

Real runs of `keepstep run` with real faults, three ranks each, without a framework: what is measured is the screen, not
the diagnosis. With --lab, so many scenarios of the lab besides, drawn by the printed seed, with the frameworks that
they break; their labels say what must be seen. What lies in --keep already is not run again.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.store.run_folders import read_manifest, runs
from keepstep.watch.look import RunLook
from keepstep.watch.page.one_file import render_page
from keepstep.watch.top.loop import lines
from keepstep.watch.top.screen import Look
from keepstep_lab.scenario import Scenario
from keepstep_lab.scenarios import SCENARIOS
from keepstep_lab.supervised import supervised
from tests.watch.chromium import PROGRAM, Chromium, chromium

SCRIPT = """
import ctypes, os, signal, sys, time
import keepstep
rank = int(os.environ["RANK"])
own, following = (os.open(f"pipe{each % 3}", os.O_RDWR) for each in (rank, rank + 1))
for step in keepstep.guard.attach().steps(range(60)):
    if rank == BAD and step == 25:
        FAULT
    time.sleep(0.02)
    os.write(following, b".")
    os.read(own, 1)  # waits for the others, as ranks that reduce gradients do
"""
FAULTS = (
    ("KeyError", "raise KeyError('label_smoothing')", "user.code_exception", 1),
    ("AssertionError", "assert step < 25, 'too far'", "user.code_exception", 2),
    ("ZeroDivisionError", "1 / 0", "user.code_exception", 0),
    ("full disk", "raise OSError(28, 'No space left on device', 'model.ckpt')", "resource.disk_full", 1),
    ("too many files", "raise OSError(24, 'Too many open files', 'shard-7')", "resource.fd_or_process_limit", 2),
    ("segmentation fault", "ctypes.string_at(0)", "user.native_crash", 1),
    ("abort", "os.abort()", "user.native_crash", 2),
    ("SIGKILL", "os.kill(os.getpid(), signal.SIGKILL)", "", 0),
    ("SIGILL", "os.kill(os.getpid(), signal.SIGILL)", "env.abi_or_cpu_instruction", 1),
    ("exit status 3", "os._exit(3)", "", 2),
    ("sleeps for ever", "time.sleep(1e6)", "sync.deadlock_or_hang_waiting_rank", 1),
    ("stopped by SIGSTOP", "os.kill(os.getpid(), signal.SIGSTOP)", "sync.deadlock_or_hang_waiting_rank", 2),
)
"""Its name, the line that does it, the cause (empty: whichever the report names), and the rank."""
SHOWN = (
    "[...document.querySelectorAll('h1,h2,p,dd')].filter((e) => e.getBoundingClientRect().bottom <= innerHeight)"
    ".map((e) => e.textContent).join('\\n')"
)


def record(place: Path, fault: str, bad: int) -> Path:
    """A run folder with this fault in it: made now, or kept from an earlier time."""
    if place.exists():
        return runs(place / ".keepstep" / "runs")[-1].path
    place.mkdir(parents=True)
    for rank in range(3):
        os.mkfifo(place / f"pipe{rank}")
    (place / "train.py").write_text(SCRIPT.replace("BAD", str(bad)).replace("FAULT", fault))
    command = [sys.executable, "-m", "keepstep", "run", "--no-check", "-n", "3", "--max-attempts", "1", "--no-spares"]
    command += ["--hang-timeout", "10", "--suspected-wait", "5", "--", sys.executable, "train.py"]
    with (place / "terminal.log").open("wb") as log:
        subprocess.run(command, cwd=place, stdout=log, stderr=log, timeout=600)
    return runs(place / ".keepstep" / "runs")[-1].path


@dataclass(frozen=True)
class Label:
    """What must be seen of a run: one of the causes (none: whichever its report names), and one of the ranks."""

    name: str
    run: Path
    causes: tuple[str, ...]
    ranks: tuple[int, ...] = ()


def drawn(count: int, seed: int) -> Iterator[Scenario]:
    """Scenarios that break something on one machine, as `keepstep run` is judged on them."""
    found = [each for one in SCENARIOS.values() if (each := supervised(one)) is not None]
    found = [each for each in found if not (each.healthy or each.needs or each.later)]
    yield from random.Random(seed).sample(found, min(count, len(found)))


def record_of_lab(place: Path, scenario: Scenario) -> Label | None:
    """None where the fault is not one for `keepstep run`, or was not proven to have struck."""
    folder = place / scenario.name
    if not folder.exists():
        command = [sys.executable, "-m", "keepstep", "lab", "run", scenario.name, "--with", "run"]
        done = subprocess.run(
            [*command, "--keep", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900
        )
        if done.returncode == 3:
            shutil.rmtree(folder, ignore_errors=True)
    made = sorted(folder.glob("**/manifest.json"))
    manifest = read_manifest(made[-1].parent) if made else None
    if manifest is None or scenario.cause is None:
        return None
    if manifest.state == "running":
        print(f"{scenario.name:28} left out: the lab's time was over before the run had ended", flush=True)
        return None
    return Label(scenario.name, made[-1].parent, (scenario.cause, *scenario.also_accept), scenario.root_ranks or ())


def names(text: str, label: Label) -> bool:
    """Whether rank and cause can be read in it."""
    blamed = not label.ranks or any(re.search(rf"\b{rank}\b", _ranks(text)) for rank in label.ranks)
    return blamed and any(cause in text for cause in label.causes)


def _ranks(text: str) -> str:
    """The numbers behind "rank" and "ranks"."""
    return " ".join(re.findall(r"ranks? (\d+(?:(?:, | and | to )\d+)*)", text))


def judge(label: Label, browser: Chromium | None, place: Path) -> tuple[bool, bool | None, str]:
    look = RunLook(label.run)
    view = look.see()
    first = view.problems[0] if view.problems else None
    if not label.causes:
        label = replace(label, causes=(first.cause if first is not None else "no cause was found",))
    on_top = names("\n".join(lines(look, Look())), label)
    on_page = None
    if browser is not None:
        page = place / f"{label.run.name}.html"
        page.write_text(render_page(look))
        browser.open(page.as_uri())
        browser.until("document.querySelector('#problems h2')?.textContent")
        on_page = names(browser.value(SHOWN), label)
    return on_top, on_page, f"{first.cause}, {first.who}" if first is not None else "nothing"


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--keep", type=Path, help="where the run folders stay")
    asked.add_argument("--lab", type=int, default=0, metavar="N", help="so many scenarios of the lab besides")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=30.0, help="no scenario is begun later than this")
    given = asked.parse_args()
    print(f"seed {given.seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        wanted = recorded(given.keep or Path(temporary), given.lab, given.seed, time.monotonic() + 60 * given.minutes)
        if PROGRAM is None:
            report(wanted, None, Path(temporary))
        else:
            with chromium(Path(temporary) / "profile") as browser:
                report(wanted, browser, Path(temporary))


def recorded(place: Path, lab: int, seed: int, until: float) -> Iterator[Label]:
    """One run after the other; those of the lab until that time."""
    for name, line, cause, rank in FAULTS:
        yield Label(name, record(place / name.replace(" ", "_"), line, rank), (cause,) if cause else (), (rank,))
    for scenario in drawn(lab, seed):
        if time.monotonic() < until and (label := record_of_lab(place, scenario)) is not None:
            yield label


def report(wanted: Iterable[Label], browser: Chromium | None, place: Path) -> None:
    found = []
    for label in wanted:
        on_top, on_page, said = judge(label, browser, place)
        found.append((on_top, on_page))
        words = {True: "yes", False: "NO", None: "no Chromium"}
        print(f"{label.name:28} top {words[on_top]:3}  page {words[on_page]:3}  {said}", flush=True)
    top, page = (sum(bool(each[place]) for each in found) for place in (0, 1))
    print(f"top {top} of {len(found)}, page {page} of {len(found)}")


if __name__ == "__main__":
    main()
