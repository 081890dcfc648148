# SPDX-License-Identifier: Apache-2.0
"""What a rank says when an exception ends it: at once, once, and with its own traceback untouched. Real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lazy_framework import need_framework

OPEN = """
import atexit, contextlib, os, sys, threading, time
from keepstep.guard.startup_hook import session
def begin():
    session().open()
    session().step_done()
def wait():
    while not os.path.exists("go"): time.sleep(0.02)
"""
LIMIT_S = 60.0


def told(folder: Path, how: str | None = None) -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in folder.glob("guard/*.notes.jsonl") for line in path.read_text().splitlines()]
    return [each["fields"] for each in lines if each["fact"] == "RankRaised" and how in (None, each["fields"]["how"])]


def start(folder: Path, body: str, head: str = "begin()\n") -> subprocess.Popen[str]:
    """A rank that runs ``body`` under the guard."""
    (folder / "train.py").write_text(OPEN + head + body)
    env = {
        **os.environ,
        "KEEPSTEP": "on",
        "KEEPSTEP_DIR": str(folder / "guard"),
        "KEEPSTEP_SUPERVISOR": str(os.getpid()),
        "KEEPSTEP_RANK": "1",
    }
    return subprocess.Popen(
        [sys.executable, "train.py"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def told_while_it_blocks(folder: Path, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Waits for the last words of a rank that cannot end yet; then lets it end."""
    try:
        end = time.monotonic() + LIMIT_S
        while not (found := told(folder)) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()
        return found
    finally:
        (folder / "go").touch()
        process.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("atexit.register(wait)\nraise ValueError('boom')", "uncaught"),
        ("threading.Thread(target=wait).start()\nraise ValueError('boom')", "uncaught"),
        ("sys.excepthook = lambda *args: wait()\nraise ValueError('boom')", "uncaught"),
        ("try:\n    raise ValueError('boom')\nfinally:\n    wait()", "leaving"),
        ("try:\n    raise ValueError('boom')\nexcept ValueError:\n    wait()\n    raise", "leaving"),
        ("try:\n    raise ValueError('boom')\nexcept Exception as e:\n    wait()\n    sys.exit(1)", "leaving"),
        ("with contextlib.ExitStack() as stack:\n    stack.callback(wait)\n    raise ValueError('boom')", "leaving"),
        (
            (
                "@contextlib.contextmanager\ndef world():\n    try:\n        yield\n    finally:\n        wait()\n"
                "with world():\n    raise ValueError('boom')"
            ),
            "leaving",
        ),
        (
            (
                "def train():\n    try:\n        raise ValueError('boom')\n    finally:\n        wait()\n"
                "try:\n    train()\nexcept KeyError:\n    pass"
            ),
            "leaving",
        ),
    ],
    ids=[
        "exit barrier",
        "a thread that lives on",
        "a hook of the script",
        "finally",
        "raised again",
        "exits",
        "with",
        "with of a generator",
        "another kind is caught",
    ],
)
def test_it_is_told_before_the_process_can_end(tmp_path: Path, body: str, how: str) -> None:
    process = start(tmp_path, body)
    (found,) = told_while_it_blocks(tmp_path, process)
    assert (found["type"], found["message"], found["how"]) == ("ValueError", "boom", how)
    assert (
        found["file"].endswith("train.py")
        and "boom" in (tmp_path / "train.py").read_text().splitlines()[found["line"] - 1]
    )
    (log,) = (tmp_path / "guard").glob("rank1-*.last.log")
    assert log.read_text().startswith("Traceback") and log.read_text().count("ValueError: boom") == 1
    assert len(told(tmp_path)) == 1, "once"


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    raise ValueError('boom')\nexcept ValueError:\n    wait()",
        (
            "def train():\n    try:\n        raise ValueError('boom')\n    finally:\n        wait()\n"
            "try:\n    train()\nexcept Exception:\n    print('again')"
        ),
        (
            "def train():\n    try:\n        raise ValueError('boom')\n    finally:\n        wait()\n"
            "with contextlib.suppress(ValueError):\n    train()"
        ),
        (
            "try:\n    raise ValueError('boom')\nexcept ValueError:\n    def train():\n        try:\n"
            "            wait()\n        finally:\n            time.sleep(1)\n    train()"
        ),
        (  # as TensorFlow asks each operation for an attribute while it traces
            "def ask():\n    try:\n        raise ValueError('boom')\n    except ValueError as error:\n        wait()\n"
            "        raise LookupError(str(error))\n"
            "try:\n    ask()\nexcept LookupError:\n    pass"
        ),
    ],
    ids=["handled", "caught further out", "suppressed", "trains on in the handler", "becomes what is caught"],
)
def test_what_may_be_caught_is_not_told(tmp_path: Path, body: str) -> None:
    process = start(tmp_path, body)
    time.sleep(3.0)
    assert process.poll() is None and not told(tmp_path)
    (tmp_path / "go").touch()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0 and not told(tmp_path)


def test_an_exception_beside_the_training_is_only_a_fact(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        "def beside():\n    raise ValueError('boom')\nthreading.Thread(target=beside, name='saver').start()\nwait()",
    )
    (found,) = told_while_it_blocks(tmp_path, process)
    assert found["how"] == "in the thread saver" and process.returncode == 0
    assert not list((tmp_path / "guard").glob("*.last.log"))


CHILD = """
import multiprocessing
def train(index):
    begin()
    threading.Thread(target=wait).start()
    raise ValueError("boom")
if __name__ == "__main__":
    {spawn}
"""


@pytest.mark.parametrize(
    "spawn",
    [
        (
            "p = multiprocessing.get_context('fork').Process(target=train, args=(0,)); "
            "p.start(); p.join(); sys.exit(p.exitcode)"
        ),
        (
            "p = multiprocessing.get_context('spawn').Process(target=train, args=(0,)); "
            "p.start(); p.join(); sys.exit(p.exitcode)"
        ),
        pytest.param("import torch.multiprocessing as mp; mp.spawn(train, nprocs=1)", marks=pytest.mark.frameworks),
    ],
    ids=["fork", "spawn", "mp.spawn"],
)
def test_children_of_multiprocessing_tell_it_too(tmp_path: Path, spawn: str) -> None:
    if "torch" in spawn:
        need_framework("torch")
    process = start(tmp_path, CHILD.format(spawn=spawn), head="")
    found = told_while_it_blocks(tmp_path, process)
    assert [(each["type"], each["function"], each["how"]) for each in found] == [("ValueError", "train", "uncaught")]
    assert process.returncode == 1


@pytest.mark.parametrize("spawn", [None, "fork"])
def test_the_traceback_is_the_same_as_without_the_guard(tmp_path: Path, spawn: str | None) -> None:
    body = "def work():\n    raise ValueError('boom')\n"
    body += (
        f"import multiprocessing\np = multiprocessing.get_context('{spawn}').Process(target=work); p.start(); p.join()"
        if spawn
        else "work()"
    )
    with_it = start(tmp_path, body).communicate(timeout=LIMIT_S)
    without = start(tmp_path, body, head="#\n").communicate(timeout=LIMIT_S)
    assert with_it == without and "ValueError: boom" in with_it[1]
    assert not re.search(r"last_words|keepstep", with_it[1])
