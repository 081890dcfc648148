# SPDX-License-Identifier: Apache-2.0
"""keepstep's own processes are killed in any order: a run leaves no process, and no training ends that should live."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.base.proc_stat import all_processes, read_stat
from keepstep.guard.companion import living
from keepstep.supervise.start import reaper
from tests.supervise.starting import OURS, Running, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
TRAINS = """
import os, subprocess, sys, time, keepstep
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for step in keepstep.guard.attach().steps(range({steps})):
    time.sleep(0.01)
    if step == 20: open(f"trains-{{os.environ.get('RANK', 0)}}", "w").write(str(os.getpid()))
worker.kill()
"""
GAPS_S = (0.0, 0.05, 0.4)


class Chaos:
    """A run of two ranks that trains, and all of its processes."""

    def __init__(self, folder: Path, steps: int = 100_000) -> None:
        self.run = Running(folder, "-n", "2", script=TRAINS.format(steps=steps))
        wait_for(lambda: len(list(folder.glob("trains-*"))) == 2)
        self.token = reaper_of(self.run.process.pid)[1]

    def members(self) -> set[int]:
        return reaper.carriers(self.token, all_processes())

    def leaves_nothing(self) -> bool:
        return wait_for(lambda: not self.members(), 30.0) is True


def children(pid: int) -> Iterator[tuple[int, list[str]]]:
    for child, entry in all_processes().items():
        if entry.parent == pid and entry.state not in "ZX":
            with contextlib.suppress(OSError):
                yield child, Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")


def reaper_of(pid: int) -> tuple[int, str]:
    """Its number, and the token of the run."""
    return wait_for(
        lambda: next(
            (
                (child, words[-2])
                for child, words in children(pid)
                if len(words) > 2 and words[-3].endswith("reaper.py")
            ),
            None,
        )
    )


def helpers_of(pid: int) -> list[int]:
    """What looks at stacks for the supervisor."""
    return [child for child, words in children(pid) if any(word.endswith("pystack_child.py") for word in words)]


@pytest.mark.parametrize(
    "order",
    [("supervisor", "reaper"), pytest.param(("reaper", "supervisor"), marks=pytest.mark.long)],
    ids=" then ".join,
)
def test_supervisor_and_reaper_killed_at_once(tmp_path: Path, order: tuple[str, ...]) -> None:
    chaos = Chaos(tmp_path)
    number, _ = reaper_of(chaos.run.process.pid)
    assert len(chaos.members()) >= 4
    for who in order:
        os.kill(number if who == "reaper" else chaos.run.process.pid, signal.SIGKILL)
    chaos.run.process.wait()
    assert chaos.leaves_nothing()


def test_a_killed_reaper_ends_no_training_and_is_replaced(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path)
    first, _ = reaper_of(chaos.run.process.pid)
    os.kill(first, signal.SIGKILL)
    assert wait_for(lambda: reaper_of(chaos.run.process.pid)[0] != first)
    assert len(chaos.members()) >= 4
    os.kill(chaos.run.process.pid, signal.SIGKILL)
    chaos.run.process.wait()
    assert chaos.leaves_nothing()


def test_a_killed_companion_ends_no_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS.format(steps=800))
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    env = {**clean, "KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path / "guard"), "RANK": "0"}
    training = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, env=env)
    pid = wait_for(lambda: living(tmp_path / "guard"))
    os.kill(pid, signal.SIGKILL)
    assert training.wait(60) == 0


@pytest.mark.long
@pytest.mark.parametrize("round_", range(20))
def test_any_order(tmp_path: Path, round_: int) -> None:
    """Supervisor, reaper and the helpers in every order, together or one after the other."""
    chance = random.Random(round_)
    orders = list(itertools.permutations(("supervisor", "reaper", "helpers")))
    order, gap = orders[round_ % len(orders)], GAPS_S[round_ // len(orders) % len(GAPS_S)]
    chaos = Chaos(tmp_path)
    time.sleep(chance.random())
    number, _ = reaper_of(chaos.run.process.pid)
    helpers = helpers_of(chaos.run.process.pid)
    pids = {"supervisor": [chaos.run.process.pid], "reaper": [number], "helpers": helpers}
    for pid in (pid for who in order for pid in pids[who]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(gap)
    chaos.run.process.wait()
    assert chaos.leaves_nothing()
    assert not helpers_of(chaos.run.process.pid) and not any(alive(pid) for pid in (*helpers, number))


def alive(pid: int) -> bool:
    entry = read_stat(pid)
    return entry is not None and entry.state not in "ZX"
