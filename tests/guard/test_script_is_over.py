# SPDX-License-Identifier: Apache-2.0
"""A script that is over, in a process that is not: what its black box says meanwhile. Real guards, real threads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstep.model.facts.guard import RankEnded
from keepstep.signals import blackbox
from keepstep.signals.blackbox import BoxPhase, Doing
from keepstep.sources.files.left_files import FileKind, LeftFile
from keepstep.sources.recorded.own_records import read_own

PATIENCE_S = 60.0
LINGERS = """\
import threading, time, keepstep
guard = keepstep.guard.attach()
def train(turns):
    for step in guard.steps(range(turns)):
        time.sleep(0.01)
"""
AFTER_TRAINING = LINGERS + "train(20)\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
IN_A_THREAD = LINGERS + "threading.Thread(target=train, args=(10**6,)).start()\n"


@contextmanager
def started(folder: Path, script: str) -> Iterator[Callable[[], Doing | None]]:
    """A function that says what the box of the script's process shows now."""
    (folder / "train.py").write_text(script)
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"}
    with subprocess.Popen([sys.executable, "train.py"], cwd=folder, env=env, stderr=subprocess.DEVNULL) as process:

        def doing() -> Doing | None:
            boxes = [path for path in folder.rglob("*.box") if not path.name.startswith(".")]
            return blackbox.doing(blackbox.newest_first(boxes[0].read_bytes())) if boxes else None

        try:
            yield doing
        finally:
            process.kill()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_process_that_only_waits_for_its_threads_is_ending_and_has_not_said_goodbye(tmp_path: Path) -> None:
    with started(tmp_path, AFTER_TRAINING) as doing:
        until(lambda: (now := doing()) is not None and now.phase is BoxPhase.END)
    (box,) = [path for path in tmp_path.rglob("*.box") if not path.name.startswith(".")]
    evidence, _ = read_own([LeftFile(box, box.name, FileKind.BLACK_BOX)])
    (ended,) = [each.fact for each in evidence if isinstance(each.fact, RankEnded)]
    assert not ended.goodbye and ended.steps == 20


def test_a_script_that_trains_in_another_thread_is_not_over(tmp_path: Path) -> None:
    with started(tmp_path, IN_A_THREAD) as doing:
        until(lambda: (now := doing()) is not None and now.steps > 150)
        now = doing()
        assert now is not None and now.phase is not BoxPhase.END
