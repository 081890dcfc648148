# SPDX-License-Identifier: Apache-2.0
"""A child that dies while its rank goes on: noted by the guard, and named where the steps became slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.facts.guard import ChildLost
from keepstep.signals.blackbox import Record, RecordKind
from keepstep.signals.pace_jump import jump_in

SCRIPT = """
import subprocess, sys, time
from pathlib import Path
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session

folder = {folder!r}
env = {{"KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": folder}}
session = Session(Identity(rank=0, world=1), env)
session.open()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"], stdin=subprocess.PIPE)
def noted(word):
    return any(word in path.read_text() for path in Path(folder).glob("*.notes.jsonl"))
def step(seconds):
    time.sleep(seconds)
    session.step_done()
end = time.monotonic() + 4.5  # the guard must have seen the child alive
while time.monotonic() < end:
    step(0.01)
child.stdin.close()
for _ in range(6):
    step(0.9)
end = time.monotonic() + 30
while not noted("ChildLost") and time.monotonic() < end:
    step(0.9)
"""


def test_a_child_that_died_unnoticed_is_named_where_the_steps_became_slow(tmp_path: Path) -> None:
    script = SCRIPT.format(folder=str(tmp_path))
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "KEEPSTEP": "off"}, timeout=120, check=True)
    explained = explain_paths([tmp_path])
    (lost,) = explained.seen.all(ChildLost)
    assert (lost.who, lost.fact.code, lost.fact.signal) == (0, 3, None)
    assert "sys.stdin.read()" in lost.fact.command
    found = next(f for f in explained.report.findings if f.rule == "SLO012")
    assert "after a child process of rank 0 had ended (status 3)" in found.title


def steps(*parts: tuple[int, float]) -> list[Record]:
    """Parts of so many steps of so many seconds."""
    found, at = [], 0
    for count, seconds in parts:
        for _ in range(count):
            at += int(seconds * 1e9)
            found.append(Record(len(found), at, RecordKind.STEP, len(found) + 1, int(seconds * 1e9)))
    return found


def test_a_jump_has_its_step_and_its_times() -> None:
    jump = jump_in(steps((40, 0.01), (6, 1.0)))
    assert jump is not None and (jump.step, jump.steps) == (41, 6)
    assert (jump.before_s, jump.after_s, jump.began) == (0.01, 1.0, 400_000_000)
    assert "since step 41, a step takes 1 s, 100 times as long as before" in jump.words


@pytest.mark.parametrize(
    "parts",
    [
        ((40, 0.01), (4, 1.0)),  # too few to say that it stays so
        ((40, 0.01), (6, 1.0), (1, 0.01)),  # it did not stay so
        ((4, 1.0), (40, 0.01)),  # it warmed up
        ((40, 0.2), (6, 1.0)),  # not many times
        ((40, 0.001), (30, 0.02)),  # a matter of milliseconds
        ((12, 0.01), (3, 1.0), (6, 0.01), (6, 1.0)),  # it was slow before, too
    ],
)
def test_what_is_no_jump(parts: tuple[tuple[int, float], ...]) -> None:
    assert jump_in(steps(*parts)) is None
