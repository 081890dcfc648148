# SPDX-License-Identifier: Apache-2.0
"""How fast programs are checked: 1,000 files of 300 lines, the same once more from the cache, and one script.

The files are put together from the labelled programs of the tests, the lab's jobs and guests, and the examples: all of
them train, on one of the frameworks, and each file imports from its neighbours. Every program in a file gets names of
its own. The peer, pyflakes, reads the same files in the same turn, on one core, because it uses no more. Processor
seconds are of all processes together.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = ("tests/check/code/programs", "lab/src/keepstep_lab/jobs", "lab/src/keepstep_lab/guests/programs", "examples")
LINES = 270
"""A file ends with the program that passes this: they have 300 on average."""
IN_A_FOLDER = 20
DEFINED = re.compile(r"^(?:async )?(?:def|class) (\w+)|^([A-Za-z_]\w*) = ", re.M)
FUTURE = re.compile(r"^from __future__ import .*\n", re.M)


def programs() -> list[str]:
    """The texts, in an order that depends on nothing but their names."""
    paths = sorted(path for place in PLACES for path in (ROOT / place).rglob("*.py"))
    texts = [FUTURE.sub("", path.read_text()) for path in paths]
    return [text for text in texts if text.count("\n") > 10]


def renamed(text: str, suffix: str) -> str:
    """The program with names of its own for all that it defines."""
    names = {one or other for one, other in DEFINED.findall(text)}
    longest_first = "|".join(sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.\"'])({longest_first})(?![\w=])", rf"\1{suffix}", text) if names else text


def texts(count: int) -> Iterator[str]:
    """Files of about 300 lines, each of several programs."""
    every = cycle(programs())
    for number in range(count):
        pieces: list[str] = []
        while sum(piece.count("\n") for piece in pieces) < LINES:
            pieces.append(renamed(next(every), f"_{len(pieces)}"))
        place = number % IN_A_FOLDER
        first = re.search(r"^def (\w+)", pieces[0], re.M)
        before = f"from m{place - 1} import shared as before\n" if place else ""
        shared = f"shared = {first[1]}\n" if first else "shared = None\n"
        yield before + "\n".join(pieces) + shared


def write_files(folder: Path, count: int) -> int:
    """Returns how many lines they have."""
    lines = 0
    for number, text in enumerate(texts(count)):
        path = folder / f"p{number // IN_A_FOLDER}" / f"m{number % IN_A_FOLDER}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        lines += text.count("\n")
    return lines


def measured(command: list[str], cache: Path) -> tuple[float, float]:
    """Wall and processor seconds of a command that must not fail."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr[-2000:]
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(commands: dict[str, list[str]], folder: Path, count: int) -> dict[str, tuple[float, float]]:
    """By name, the turn with the least processor time; all of them take turns, the second check after the first."""
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(count):
        for name, command in commands.items():
            turns[name].append(measured(command, folder / f"cache{turn}"))
    return {name: min(every, key=lambda each: each[1]) for name, every in turns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "project")
        folder.mkdir()
        lines = write_files(folder, asked.files)
        check = [sys.executable, "-m", "keepstep", "check", "code"]
        commands = {
            "keepstep, nothing known": [*check, str(folder)],
            "keepstep, nothing changed": [*check, str(folder)],
            "keepstep, one script of 85 lines": [*check, str(ROOT / "examples" / "demo" / "train.py")],
        }
        if importlib.util.find_spec("pyflakes") is not None:
            commands["pyflakes"] = [sys.executable, "-m", "pyflakes", str(folder)]
        found = best(commands, Path(made), asked.turns)
    print(f"# Programs\n\n{sys.version.split()[0]}, {os.cpu_count()} cores, {asked.files:,} files, {lines:,} lines\n")
    print("| what | seconds | processor seconds | bar |\n|---|---|---|---|")
    bars = {"keepstep, nothing known": "5 s", "keepstep, one script of 85 lines": "0.5 s"}
    for name, (wall, cpu) in found.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {bars.get(name, '')} |")
    if "pyflakes" not in found:
        print("\npyflakes is not installed, so there is nothing to compare with: `pip install pyflakes`")


if __name__ == "__main__":
    main()
