# SPDX-License-Identifier: Apache-2.0
"""A real run fills its history, with a supervisor and without."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.signals.blackbox import BoxPhase
from keepstep.store.history.reader import History, open_history
from keepstep.supervise.watch.printed_progress import PrintedProgress
from tests.supervise.starting import OURS, Running

SCRIPT = """
import time
from keepstep.guard import attach
for step in attach().steps(range({steps})):
    time.sleep(0.1)
    print(f"step {{step}}/{steps} loss: {{1 / (1 + step):.3f}}", flush=True)
"""


def test_a_run_fills_its_history(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "2", script=SCRIPT.format(steps=40))
    assert run.finish() == 0, run.err
    history = open_history(run.run)
    assert history.ranks == [0, 1] and len(history.hosts) == 1
    for rank in history.ranks:
        last = history.last(rank)
        assert last["phase"][0] in (BoxPhase.COMPUTE, BoxPhase.END)  # it may be seen on its way out
        assert last["step"][0] > 5 and last["memory"][0] > 1 << 20
        assert {point.mean for point in history.series("busy", rank, *history.span, points=50)} > set()
        assert last["step_s"][0] >= 0.1 and 0 < last["loss"][0] < 0.5 and last["files"][0] > 2
        assert abs(last["step"][1] - time.time()) < 600
        left = [point.mean for point in history.series("left_s", rank, *history.span, points=50)]
        assert left[0] > left[-1] >= 0
    host = history.last(history.hosts[0])
    assert 0 < host["host_memory_share"][0] < 1 and 0 <= host["disk_share"][0] <= 1 and "net_in" in host
    assert [(each.number, each.start <= each.end) for each in history.attempts] == [(0, True)]


def test_without_a_supervisor_the_companion_fills_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(steps=600))
    env = {name: value for name, value in os.environ.items() if name not in OURS} | {
        "KEEPSTEP_DIR": str(tmp_path / "g")
    }
    training = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL)
    try:
        assert _history_of_steps(tmp_path / "g").ranks == [0]
    finally:
        training.kill()
        training.wait()


def _history_of_steps(folder: Path) -> History:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        history = open_history(folder)
        last = history.last(0) if history.ranks else {}
        if "step_s" in last and last["phase"][0] == BoxPhase.COMPUTE:
            return history
        time.sleep(0.2)
    pytest.fail("no step was recorded")


def test_the_loss_that_was_printed_last_is_read(tmp_path: Path) -> None:
    log, printed = tmp_path / "rank0.log", PrintedProgress()
    assert printed.look(log, 0.0) is None
    log.write_text("epoch 1 train_loss=0.5 acc 0.1\nlossless 7\n{'loss': 2.5e-3, 'lr': 1}\n")
    assert printed.look(log, 1.0) == 0.0025
    with log.open("a") as stream:
        stream.write("Loss: tensor(nan)\n")
    found = printed.look(log, 2.0)
    assert found is not None and found != found


@pytest.mark.parametrize(
    ("first", "second", "left_s"),
    [
        ("step 100/1000", "step 200/1000", 80.0),
        ("Epoch [1/4], Step [50/100]", "Epoch [2/4], Step [50/100]", 25.0),
        (" 10%|#    | 10/100 [00:10<01:30]", " 20%|##   | 20/100 [00:20<01:20]", 80.0),
        ("epoch 1 of 10", "epoch 2 of 10", 90.0),
        ("step 5", "step 6", None),
        ("step 9/5", "step 10/5", None),
        ("date 11/18", "date 11/19", None),
    ],
)
def test_time_left_is_known_where_the_script_says_how_far_it_is(
    tmp_path: Path, first: str, second: str, left_s: float | None
) -> None:
    log, printed = tmp_path / "rank0.log", PrintedProgress()
    for at, line in ((0.0, first), (10.0, second)):
        log.write_text(log.read_text() + line + "\n" if log.exists() else line + "\n")
        printed.look(log, at)
    assert printed.left_s(log, 10.0) == (pytest.approx(left_s) if left_s is not None else None)
