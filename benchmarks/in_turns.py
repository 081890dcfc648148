# SPDX-License-Identifier: Apache-2.0
"""The same training with and without the guard, block by block in turns within one run; a row of the table."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

BLOCKS = 600
STEPS = 5
"""Many short turns: what else the machine does then meets both alike."""
HEADING = "| what | step ms without | with | difference (95 %) | middle half | bar |\n|---|---|---|---|---|---|"


class Ranks:
    """The processes of one training. Each takes as many steps as a line of its input says, and answers ``TOOK seconds``."""

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
        """Seconds of a step."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{steps}\n")
            rank.stdin.flush()
        return self.took() / steps

    def took(self) -> float:
        """What the slowest one answers."""
        return max(self._answer(rank) for rank in self._ranks)

    def _answer(self, rank: subprocess.Popen[str]) -> float:
        assert rank.stdout is not None
        while line := rank.stdout.readline():
            if line.startswith("TOOK "):
                return float(line.split()[1])
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


def row(name: str, start: Callable[[str, Path], Ranks], *, bar: float, blocks: int = BLOCKS, steps: int = STEPS) -> str:
    """``start(mode, folder)`` begins a training; both are there all the time, and one goes on while the other one waits."""
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
        finally:
            for job in jobs.values():
                job.end()
    ratios = sorted(on / off - 1 for off, on in zip(times["off"], times["on"], strict=True))
    quarter = len(ratios) // 4
    off, on = statistics.median(times["off"]), statistics.median(times["on"])
    reach = round(len(ratios) ** 0.5)  # places on either side of the median hold it with 95 %, whatever the distribution
    low, high = (ratios[max(0, min(len(ratios) - 1, len(ratios) // 2 + side * reach))] for side in (-1, 1))
    return (
        f"| {name} | {off * 1000:.2f} | {on * 1000:.2f} | {statistics.median(ratios):+.2%} ({low:+.2%} to {high:+.2%}) "
        f"| {ratios[quarter]:+.2%} to {ratios[-quarter - 1]:+.2%} | {bar:.1%} |"
    )
