# SPDX-License-Identifier: Apache-2.0
"""How fast programs are checked: 1,000 files of 300 lines, the same once more from the cache, one file
changed, and one script.

The files are put together from the labelled programs of the tests, the lab's jobs and guests, and the examples: all of
them train, on one of the frameworks, and each file imports from its neighbours. Every program in a file gets names of
its own. Peers read the same files in the same turn. Processor seconds are of all processes together.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
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
FIRST, AGAIN, CHANGED = "keepstep, nothing known", "keepstep, nothing changed", "keepstep, one file changed"
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
    assert done.returncode in (0, 1) or "pylint" in command[0], done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(commands: dict[str, list[str]], folder: Path, count: int, changed: Path) -> dict[str, tuple[float, float]]:
    """By name, the turn with the least processor time; all of them take turns, the second check after the first."""
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(count):
        for name, command in commands.items():
            if name == CHANGED:
                changed.write_text(changed.read_text() + f"changed = {turn}\n")
            turns[name].append(measured(command, folder / f"cache{turn}"))
    return {name: min(every, key=lambda each: each[1]) for name, every in turns.items()}


def peers(folder: Path, among: Path | None) -> dict[str, list[str]]:
    """Other checkers on the same files, as far as they are installed."""
    words = {
        "pyflakes": ["pyflakes"],
        "ruff, without its cache": ["ruff", "check", "--no-cache", "--select", "ALL", "--quiet"],
        "pylint, errors only": ["pylint", "--errors-only", "--recursive=y", "--disable=import-error", "-j2"],
    }
    found = {}
    for name, (program, *options) in words.items():
        there = shutil.which(program, path=str(among) if among else None)
        if there is not None:
            found[name] = [there, *options, str(folder)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--project", type=Path, help="a project to copy and read instead of files that are made")
    parser.add_argument("--peers", type=Path, help="the folder of ruff, pyflakes and pylint, if not on the PATH")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "project")
        if asked.project:
            shutil.copytree(asked.project, folder, ignore=lambda at, names: [n for n in names if n.startswith(".")])
            every = sorted(folder.rglob("*.py"))
            files, lines = len(every), sum(path.read_bytes().count(b"\n") for path in every)
            changed = every[len(every) // 2]
        else:
            folder.mkdir()
            files, lines = asked.files, write_files(folder, asked.files)
            changed = folder / "p0" / "m0.py"
        check = [sys.executable, "-m", "keepstep", "check", "code"]
        commands = {
            FIRST: [*check, str(folder)],
            AGAIN: [*check, str(folder)],
            CHANGED: [*check, str(folder)],
            "keepstep, one script of 85 lines": [*check, str(ROOT / "examples" / "demo" / "train.py")],
            **peers(folder, asked.peers),
        }
        found = best(commands, Path(made), asked.turns, changed)
    print(f"# Programs\n\n{sys.version.split()[0]}, {os.cpu_count()} cores, {files:,} files, {lines:,} lines\n")
    print("| what | seconds | processor seconds | bar, in processor seconds |\n|---|---|---|---|")
    bars = {} if asked.project else {FIRST: "8", AGAIN: "1"}
    for name, (wall, cpu) in found.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {bars.get(name, '')} |")
    print("\nOther checkers are measured where they are installed: `pip install pyflakes ruff pylint`, or `--peers`.")


if __name__ == "__main__":
    main()
