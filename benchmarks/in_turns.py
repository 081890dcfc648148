# SPDX-License-Identifier: Apache-2.0
"""The same training on a GPU with and without the guard, block by block in turns within one run; a row of the table."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

HEADING = "| what | step ms without | with | difference (95 %) | bar |\n|---|---|---|---|---|"


class Ranks:
    """The processes of one training.

    Each takes as many steps as a line of its input says, and answers ``TOOK seconds``.
    """

    def __init__(self, starts: Sequence[tuple[list[str], dict[str, str]]]) -> None:
        self._ranks = [
            subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for command, env in starts
        ]
        cores = sorted(os.sched_getaffinity(0))
        for place, rank in enumerate(self._ranks if len(self._ranks) > 1 else ()):
            os.sched_setaffinity(rank.pid, {cores[place % len(cores)]})

    def block(self, steps: int) -> float:
        """Seconds of a step, of the slowest one."""
        return max(answer[0] for answer in self.ask(str(steps))) / steps

    def ask(self, line: str) -> list[list[float]]:
        """Tell all of them to go on, and what each answers."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{line}\n")
            rank.stdin.flush()
        return self.answers()

    def answers(self) -> list[list[float]]:
        return [self._answer(rank) for rank in self._ranks]

    def _answer(self, rank: subprocess.Popen[str]) -> list[float]:
        assert rank.stdout is not None
        while line := rank.stdout.readline():
            if line.startswith("TOOK "):
                return [float(word) for word in line.split()[1:]]
        raise RuntimeError("a rank of the benchmark ended")

    def end(self) -> None:
        for rank in self._ranks:
            if rank.stdin is not None:
                rank.stdin.close()
        for rank in self._ranks:
            try:
                rank.wait(timeout=30)
            except subprocess.TimeoutExpired:
                rank.kill()


def median_within(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and between which values it lies with 95 %, whatever the distribution."""
    ordered = sorted(values)
    reach, middle = round(len(ordered) ** 0.5), len(ordered) // 2
    low, high = (ordered[max(0, min(len(ordered) - 1, middle + side * reach))] for side in (-1, 1))
    return statistics.median(ordered), low, high


def row(name: str, start: Callable[[str, Path], Ranks], *, bar: float, blocks: int, steps: int) -> str:
    """``start(mode, folder)`` begins a training; both are there all the time, and one goes on while the other one
    waits."""
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {mode: start(mode, Path(folder)) for mode in ("off", "on")}
        try:
            for job in jobs.values():
                job.block(3 * steps)
            times: dict[str, list[float]] = {"off": [], "on": []}
            for _ in range(blocks):
                for mode in random.sample(("off", "on"), 2):
                    times[mode].append(jobs[mode].block(steps))
                print(*(f"{mode} {1000 * of_mode[-1]:.3f} ms" for mode, of_mode in times.items()), file=sys.stderr)
        finally:
            for job in jobs.values():
                job.end()
    more, low, high = median_within([on / off - 1 for off, on in zip(times["off"], times["on"], strict=True)])
    off, on = statistics.median(times["off"]), statistics.median(times["on"])
    return f"| {name} | {off * 1000:.2f} | {on * 1000:.2f} | {more:+.2%} ({low:+.2%} to {high:+.2%}) | {bar:.1%} |"
