# SPDX-License-Identifier: Apache-2.0
"""A pause, a save and a stop on several nodes: the ranks of all of them, asked where the run is led, or by a limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.analyze.goodput import goodput
from keepstep.signals.goodput import Bucket
from keepstep.store import pause_request
from keepstep.supervise.nodes.evidence.requests import Requests
from keepstep.supervise.nodes.messages import Asked, BadMessage, decode, encode
from tests.supervise.nodes.test_run_on_nodes import Nodes, nodes, wait_for
from tests.supervise.test_pause import keepstep
from tests.supervise.test_pause_heartbeats import HELD_S, JAX

__all__ = ["nodes"]
TRAIN = """
import os, time
import keepstep
rank = os.environ["RANK"]
held = []
for step in keepstep.guard.attach().steps(range(100_000)):
    time.sleep(0.05)
    if keepstep.should_save():
        open(f"saved-{rank}-{step}", "w").close()
    if step == 20 and rank == "1" and os.path.exists("hold"):
        held = [open(os.devnull) for _ in range(200)]
    if not os.path.exists("hold"):
        held.clear()
    with open(f"step-{rank}", "w") as file:
        file.write(str(step))
    if os.path.exists("end"):
        break
"""
LIMIT = """
[[threshold]]
reading = "files"
above = 150
for = "0s"
do = ["{}"]
"""


def step_of(nodes: Nodes, rank: int) -> int:
    path = nodes.folder / f"step-{rank}"
    return int((path.read_text() if path.exists() else "") or -1)


def stand_still(nodes: Nodes) -> bool:
    """Whether no rank takes a step for a while."""
    before = [step_of(nodes, rank) for rank in (0, 1)]
    time.sleep(1.0)
    return before == [step_of(nodes, rank) for rank in (0, 1)] and min(before) > 0


@pytest.fixture
def two(nodes: Nodes) -> Iterator[Nodes]:
    (nodes.folder / "train.py").write_text(TRAIN)
    nodes.env = {"KEEPSTEP": "on"}
    yield nodes
    (nodes.folder / "end").touch()


def start(two: Nodes, *options: str) -> Path:
    """Its run folder."""
    for node in (0, 1):
        two.start(node, "--nodes", "2", *(options if node == 0 else ()))
    wait_for(lambda: min(step_of(two, rank) for rank in (0, 1)) > 3, "both ranks to take steps")
    return next((two.folder / ".keepstep" / "runs").glob("2*"))


def test_a_user_pauses_all_nodes_lets_them_go_on_and_asks_them_to_save(two: Nodes) -> None:
    run = start(two)
    done = keepstep("pause", str(run))
    assert done.returncode == 0 and done.stdout.startswith("2 ranks paused after step "), done.stderr
    wait_for(lambda: stand_still(two), "all ranks to stand still")
    at = step_of(two, 0)
    assert at == step_of(two, 1) and f"after step {at + 1}," in done.stdout
    assert (again := keepstep("pause", str(run))).returncode == 2 and "has been asked to pause already" in again.stderr
    assert keepstep("resume", str(run)).stdout == "2 ranks may go on\n"
    wait_for(lambda: min(step_of(two, rank) for rank in (0, 1)) > at, "both ranks to go on")
    done = keepstep("save", str(run))
    assert done.returncode == 0 and done.stdout.startswith("2 ranks will save at the same step"), done.stderr
    wait_for(lambda: len(list(two.folder.glob("saved-*"))) == 2, "both ranks to save")
    first, second = sorted(each.name.split("-")[2] for each in two.folder.glob("saved-*"))
    assert first == second
    (two.folder / "end").touch()
    status, said = two.ended(0)
    assert status == 0 and two.ended(1)[0] == 0, said
    assert said.count("a user wants a pause") == 1 and "all ranks go on, after" in said
    found = goodput(run)
    assert found.buckets[Bucket.PAUSED] > 1.0
    (reason,) = {reason for bucket, reason in found.lost if bucket is Bucket.PAUSED}
    assert reason == "a user wants a pause (`keepstep pause`)"


@pytest.mark.long
def test_a_limit_pauses_all_nodes_and_one_node_ends_it_for_all(two: Nodes) -> None:
    (two.folder / "limits.toml").write_text(LIMIT.format("pause"))
    (two.folder / "hold").touch()
    start(two, "--config", "limits.toml")
    wait_for(lambda: step_of(two, 1) >= 20 and stand_still(two), "all ranks to stand still")
    assert step_of(two, 0) == step_of(two, 1)
    guards = list(two.temporary.glob("keepstep-node-*/attempt-0/guard"))
    assert len(guards) == 2 and all(pause_request.asked(path) for path in guards)
    pause_request.withdraw(guards[0])  # as a rank does that cannot agree, or that is to stop
    wait_for(lambda: not any(pause_request.asked(path) for path in guards), "it to be withdrawn everywhere")
    (two.folder / "end").touch()
    status, said = two.ended(0)
    assert status == 0 and two.ended(1)[0] == 0, said
    assert said.count("above 150 files; asking all ranks to pause after the same step") == 1, said


@pytest.mark.long
def test_a_limit_stops_all_nodes(two: Nodes) -> None:
    (two.folder / "limits.toml").write_text(LIMIT.format("stop"))
    (two.folder / "hold").touch()
    start(two, "--config", "limits.toml")
    status, said = two.ended(0)
    assert status == 143 and "rank 1, open file descriptors" in said and "stopping the run, which is kept" in said
    two.ended(1)


def test_a_request_that_was_withdrawn_elsewhere_ends_only_that_one(tmp_path: Path) -> None:
    here, there = (Requests(tmp_path / name, 0) for name in ("here", "there"))
    for name in ("here", "there"):
        (tmp_path / name).mkdir()

    def carry() -> None:
        for asked in here.new():
            there.take(decode(encode(asked)))  # type: ignore[arg-type]

    request = pause_request.ask(tmp_path / "here", 60)
    carry()
    assert pause_request.asked(tmp_path / "there") == request and not list(there.new())
    pause_request.withdraw(tmp_path / "here")
    newer = pause_request.ask(tmp_path / "there", 30)
    carry()
    assert pause_request.asked(tmp_path / "there") == newer
    assert [each.name for each in there.new()] == [pause_request.REQUEST]
    for name, numbers in (("manifest.json", (("number", 1),)), (pause_request.REQUEST, ())):
        with pytest.raises(BadMessage):
            there.take(Asked(attempt=0, name=name, numbers=numbers))


@pytest.mark.frameworks
@pytest.mark.long
def test_a_pause_of_two_nodes_outlives_the_heartbeats_of_jax(nodes: Nodes) -> None:
    noted = 'open(f"step-{jax.process_index()}", "w").write(str(number))'
    (nodes.folder / "train.py").write_text(JAX.replace("    number += 1\n", f"    number += 1\n    {noted}\n"))
    nodes.env = {"KEEPSTEP": "on"}
    run = start(nodes)
    done = keepstep("pause", str(run))
    assert done.returncode == 0, done.stderr
    wait_for(lambda: stand_still(nodes), "all ranks to stand still")
    at = step_of(nodes, 0)
    time.sleep(HELD_S)
    assert step_of(nodes, 0) == step_of(nodes, 1) == at
    assert keepstep("resume", str(run)).returncode == 0
    wait_for(lambda: min(step_of(nodes, rank) for rank in (0, 1)) > at + 3, "both ranks to go on")
    (nodes.folder / "end").touch()
    status, said = nodes.ended(0)
    assert status == 0 and "all ranks go on, after" in said and "heartbeat" not in said, said
