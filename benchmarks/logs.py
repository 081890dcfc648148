# SPDX-License-Identifier: Apache-2.0
"""How fast logs are read: keepstep against ripgrep, Python's ``re`` and Drain3, on the same files.

ripgrep and ``re`` get the very literals that keepstep looks for, and only count lines;
keepstep also reads the lines exactly, attributes ranks and diagnoses. Drain3 clusters
every line. The slow peers get a smaller piece of each file; the table is in MB/s.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.made_logs import make, make_many
from keepstep.parse.scan.tables import tables

RE_PIECE = 100_000
DRAIN_PIECE = 1_500_000


def literals() -> list[str]:
    signatures, blocks, _ = tables()
    every = [*signatures, *(b.begin for b in blocks)]
    return sorted({anchor for each in every for anchor in each.anchors})


def run(command: list[str], **environment: str) -> tuple[float, int]:
    """Wall seconds and peak memory (bytes) of a child, with compiled modules at hand as where keepstep is installed."""
    code = (
        "import resource,subprocess,sys;r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, env={**installed, **environment}
    )
    took = time.perf_counter() - began
    return took, int(done.stdout.split()[-1]) * 1024


def best(times: int, command: list[str], **environment: str) -> tuple[float, int]:
    results = [run(command, **environment) for _ in range(times)]
    return min(t for t, _ in results), max(m for _, m in results)


def keepstep(path: Path, cores: int = 1, times: int = 3) -> tuple[float, int]:
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log", "--json", str(path)]
    if cores == 1 and shutil.which("taskset"):
        command = ["taskset", "-c", "0", *command]
    return best(times, command)


def ripgrep(path: Path, patterns: Path) -> tuple[float, int] | None:
    program = shutil.which("rg")
    if program is None:
        return None
    command = [
        program,
        "-c",
        "-a",
        "-F",
        "-j1",
        *(["-z"] if path.suffix == ".gz" else []),
        "-f",
        str(patterns),
        str(path),
    ]
    if shutil.which("taskset"):
        command = ["taskset", "-c", "0", *command]
    return best(3, command)


def python_re(piece: bytes, words: list[str]) -> float:
    pattern = re.compile(b"|".join(re.escape(w.encode()) for w in words))
    began = time.perf_counter()
    sum(1 for _ in pattern.finditer(piece))
    return time.perf_counter() - began


def drain(piece: bytes) -> float | None:
    try:
        from drain3 import TemplateMiner
    except ImportError:
        return None
    logging.getLogger("drain3").setLevel(logging.CRITICAL)
    miner = TemplateMiner()
    lines = piece.decode("utf-8", "replace").splitlines()
    began = time.perf_counter()
    for line in lines:
        miner.add_log_message(line)
    return time.perf_counter() - began


def start_up() -> float:
    """What ``why`` takes on an almost empty log: imports, tables, rules."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.log").write_text("hello\n")
        return keepstep(Path(folder))[0]


def table(megabytes: int, say: Callable[[str], None]) -> None:
    words = literals()
    start = start_up()
    say(
        f"{platform.python_version()} on {os.cpu_count()} cores; {len(words):,} literals; files of {megabytes} MB; "
        f"`why` on a one-line log: {start:.2f} s (taken off below, the peers' start is not)"
    )
    say("")
    say("| log | keepstep MB/s | ripgrep MB/s | ratio | `re` MB/s | Drain3 MB/s | keepstep memory |")
    say("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patterns = folder / "patterns"
        patterns.write_text("\n".join(words) + "\n")
        for kind, path in make(folder, megabytes).items():
            size = path.stat().st_size if path.suffix != ".gz" else megabytes * 250_000
            took, memory = keepstep(path)
            ours = size / 1e6 / max(1e-9, took - start)
            theirs = ripgrep(path, patterns)
            rg = size / 1e6 / theirs[0] if theirs else None
            with (folder / "log0.log" if path.suffix == ".gz" else path).open("rb") as stream:
                piece = stream.read(DRAIN_PIECE)
            plain = RE_PIECE / 1e6 / python_re(piece[:RE_PIECE], words)
            clustered = drain(piece)
            say(
                f"| {kind} | {ours:.0f} | {f'{rg:.0f}' if rg else 'not here'} | {f'{ours / rg:.1f}x' if rg else ''} "
                f"| {plain:.2f} | {f'{DRAIN_PIECE / 1e6 / clustered:.2f}' if clustered else 'not here'} | "
                f"{memory / 1e6:.0f} MB |"
            )
        many = make_many(folder)
        one, _ = keepstep(many, cores=1, times=1)
        both, memory = keepstep(many, cores=2, times=2)
        say("")
        say(
            f"1,000 files of 1 MB: {both:.1f} s on all cores, {one:.1f} s on one ({one / both:.1f}x), "
            f"{memory / 1e6:.0f} MB"
        )
        help_time, _ = best(5, [sys.executable, "-m", "keepstep", "--help"])
        say(f"`keepstep --help`: {help_time:.2f} s")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--megabytes", type=int, default=1000)
    ask.add_argument("--out", type=Path)
    asked = ask.parse_args()
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    table(asked.megabytes, say)
    if asked.out:
        asked.out.write_text(
            "# Log reading\n\nMade by `make bench`; machines differ, the ratios matter.\n\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
