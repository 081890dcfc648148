# SPDX-License-Identifier: Apache-2.0
"""The guard speaks while ranks wait for each other, in real frameworks: which rank is missing or was given twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports
from tests.lazy_framework import need_framework

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LIMIT_S = 240.0

TORCH = """
import datetime, sys, torch.distributed as dist
at, size, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
limit = datetime.timedelta(seconds=200)
dist.init_process_group("gloo", init_method=f"tcp://{at}", world_size=size, rank=rank, timeout=limit)
print("formed", flush=True)
dist.barrier()
"""
JAX = """
import sys, jax
at, size, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(at, size, rank)
print("formed", flush=True)
"""
TENSORFLOW = """
import json, os, sys
at, size, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
port = int(at.rpartition(":")[2])
workers = [f"127.0.0.1:{port + n}" for n in range(size)]
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
import tensorflow as tf
tf.distribute.MultiWorkerMirroredStrategy()
print("formed", flush=True)
"""


class Ranks:
    """Processes of one script, each started by hand."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        (folder / "train.py").write_text(script)
        self.started: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []

    def start(self, at: str, size: int, rank: int) -> None:
        self.logs.append(self.folder / f"log{len(self.started)}")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("KEEPSTEP", "TF_CONFIG"))}
        env |= {
            "KEEPSTEP": "on",
            "KEEPSTEP_COMPANION": "off",
            "KEEPSTEP_DIR": str(self.folder / "guard"),
            "JAX_PLATFORMS": "cpu",
        }
        with self.logs[-1].open("wb") as log:
            command = [sys.executable, "train.py", at, str(size), str(rank)]
            self.started.append(
                subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True)
            )

    @property
    def said(self) -> str:
        return "".join(log.read_text(errors="replace") for log in self.logs)

    def notes(self) -> list[dict[str, object]]:
        found = []
        for path in (self.folder / "guard").glob("*.notes.jsonl"):
            found += [
                each["fields"]
                for each in map(json.loads, path.read_text().splitlines())
                if each["fact"] == "RanksArriving"
            ]
        return found

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Callable[[str], Ranks]]:
    made: list[Ranks] = []

    def make(script: str) -> Ranks:
        made.append(Ranks(tmp_path, script))
        return made[-1]

    yield make
    for each in made:
        each.close()


def until(condition: Callable[[], object], shown: Callable[[], str]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, shown()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("framework", "script"),
    [
        ("torch", TORCH),
        pytest.param("jax", JAX, marks=pytest.mark.long),
        pytest.param("tensorflow", TENSORFLOW, marks=pytest.mark.long),
    ],
)
def test_the_missing_rank_is_named_and_a_late_one_ends_the_words(
    framework: str, script: str, ranks: Callable[[str], Ranks]
) -> None:
    need_framework(framework)
    run, at = ranks(script), f"127.0.0.1:{free_ports(1)[0]}"
    run.start(at, 3, 0)
    run.start(at, 3, 1)
    until(lambda: "2 of 3 ranks arrived" in run.said, lambda: run.said)
    assert "rank 2 is missing" in run.said
    until(
        lambda: any(each["missing"] == [2] and each["framework"] == framework for each in run.notes()),
        lambda: str(run.notes()),
    )
    run.start(at, 3, 2)
    until(lambda: run.said.count("formed") == 3, lambda: run.said)


@pytest.mark.parametrize(("framework", "script"), [("torch", TORCH), ("jax", JAX)])
def test_a_rank_given_twice_is_told_at_once(framework: str, script: str, ranks: Callable[[str], Ranks]) -> None:
    need_framework(framework)
    run, at = ranks(script), f"127.0.0.1:{free_ports(1)[0]}"
    run.start(at, 2, 0)
    run.start(at, 2, 0)
    until(lambda: "rank 0 was given twice" in run.said, lambda: run.said)
    pids = sorted(process.pid for process in run.started)
    until(lambda: any(each["twice"] == pids for each in run.notes()), lambda: str(run.notes()))


@pytest.mark.long
def test_ranks_that_wait_at_different_ports_are_told_of_each_other(ranks: Callable[[str], Ranks]) -> None:
    need_framework("torch")
    run, (one, other) = ranks(TORCH), free_ports(2)
    run.start(f"127.0.0.1:{one}", 2, 0)
    run.start(f"127.0.0.1:{other}", 2, 1)
    until(lambda: f"waits at 127.0.0.1:{one} as rank 0 of 2" in run.said, lambda: run.said)
    until(lambda: f"waits at 127.0.0.1:{other} as rank 1 of 2" in run.said, lambda: run.said)
    assert "nothing answers there" in run.said


def test_a_rank_that_is_still_starting_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lightning does: rank 0 starts the script again, which imports for long. A forked worker is not such a rank."""
    from keepstep.guard.agree import arrivals

    script = """
import os, subprocess, sys, time
if "child" not in sys.argv:
    started = subprocess.Popen([sys.executable, "train.py", "child"], env={**os.environ, "LOCAL_RANK": "1"})
    if os.fork() == 0: time.sleep(600)
    open("pid", "w").write(str(os.getpid()))
time.sleep(600)
"""
    (tmp_path / "train.py").write_text(script)
    process = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, start_new_session=True)
    try:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), lambda: "no pid")
        mine = arrivals.Arrival(process.pid, "torch", 2, 0, "127.0.0.1:1", program=f"train.py in {tmp_path}", here=True)
        monkeypatch.setattr(arrivals, "_living", lambda: [mine])
        until(lambda: len(arrivals._starting(mine)) == 1, lambda: str(arrivals._starting(mine)))
        said: list[str] = []
        waiting = arrivals.Waiting(mine, said.append, lambda fields, words: None, began=time.monotonic() - 30.0)
        waiting.look()
        assert said == []
        late = arrivals.Waiting(mine, said.append, lambda fields, words: None, began=time.monotonic() - 200.0)
        late.look()
        assert "rank 1 is missing" in said[0] and "1 more of the same program is still starting" in said[0]
        said.clear()
        monkeypatch.setattr(arrivals, "IDLE_S", 0.0)  # it sleeps, so it is not starting
        until(lambda: not waiting.look() and said, lambda: "nothing said")
        assert "rank 1 is missing" in said[0] and "still starting" not in said[0]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
