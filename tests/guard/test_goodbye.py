# SPDX-License-Identifier: Apache-2.0
"""How a process with a guard ends, and what `keepstep why` makes of its folder: real processes, ended in every way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.facts.guard import RankEnded
from keepstep.model.report import Report

SCRIPT = """
import os, signal, sys
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session

env = {{"KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": {folder!r}}}
session = Session(Identity(rank=0, world=1), env)
session.open()
for _ in range(5):
    session.step_done()
{end}
"""


def left(folder: Path, end: str) -> tuple[int, list[RankEnded], Report]:
    script = SCRIPT.format(folder=str(folder), end=end)
    status = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "KEEPSTEP": "off"}, stderr=subprocess.DEVNULL, timeout=60
    ).returncode
    explained = explain_paths([folder])
    return status, [e.fact for e in explained.seen.all(RankEnded)], explained.report


@pytest.mark.parametrize("end", ["pass", "sys.exit()", "sys.exit(0)", "os._exit(0)"])
def test_a_process_that_ends_well_says_so_and_is_healthy(tmp_path: Path, end: str) -> None:
    status, (ended,), report = left(tmp_path, end)
    assert (status, ended.goodbye, ended.status, ended.steps) == (0, True, 0, 5)
    assert report.verdict.value == "healthy" and report.exit_status == 0


@pytest.mark.parametrize(
    ("end", "status", "raised"),
    [
        ("raise ValueError('no')", 1, "ValueError"),
        ("sys.exit(3)", 3, None),
        ("sys.exit('no data')", 1, None),
        ("os._exit(4)", 4, None),
        # Python itself does not report these
        ("raise SystemExit(5)", 5, None),
        ("exit(6)", 6, None),
        ("import ctypes; ctypes.CDLL(None).exit(7)", 7, None),
    ],
)
def test_a_status_that_is_not_0_is_never_healthy(tmp_path: Path, end: str, status: int, raised: str | None) -> None:
    got, (ended,), report = left(tmp_path, end)
    assert (got, ended.goodbye, ended.status, ended.raised) == (status, True, status, raised)
    assert report.verdict.value == "failed" and report.exit_status == 1
    assert report.root is not None and report.root.ranks == (0,)


@pytest.mark.parametrize(("how", "raised"), [("sys.exit(1)", "KeyboardInterrupt"), ("sys.exit(0)", None)])
def test_an_exit_that_answers_ctrl_c_is_an_interruption(tmp_path: Path, how: str, raised: str | None) -> None:
    """Lightning does so: it says "attempting graceful shutdown", and exits."""
    _, (ended,), _ = left(tmp_path, f"try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    {how}")
    assert ended.raised == raised


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [("raise SystemExit('no data')", 1, "no data"), ("raise SystemExit(5)", 5, None), ("exit(6)", 6, None)],
)
def test_the_line_that_raises_system_exit_is_noted_before_exit_handlers_run(
    tmp_path: Path, end: str, status: int, words: str | None
) -> None:
    program = tmp_path / "program.py"
    handler = "import atexit, glob\natexit.register(lambda: print(open(glob.glob('*.notes.jsonl')[0]).read()))\n"
    program.write_text(handler + SCRIPT.format(folder=str(tmp_path), end=end))
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "KEEPSTEP": "off"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    (ended,) = explain_paths([tmp_path]).seen.all(RankEnded)
    last = len(program.read_text().splitlines())
    assert (done.returncode, ended.fact.status) == (status, status)
    assert (ended.fact.place, ended.fact.words) == (f"program.py:{last}", words)
    assert f'"status": {status}' in done.stdout, done.stdout


def test_the_code_of_an_exit_is_what_it_was(tmp_path: Path) -> None:
    end = """
error = SystemExit(3)
before = error.code
error.code = 4
changed = error.code
del error.code
assert (before, changed, error.code, SystemExit("words").code) == (3, 4, None, "words")
assert type(SystemExit.code).__name__ == "member_descriptor"
class Own(SystemExit): pass
raise Own(8)
"""
    status, (ended,), _ = left(tmp_path, end)
    assert (status, ended.status) == (8, 8)


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGKILL)", "os.abort()", "os.kill(os.getpid(), signal.SIGTERM)"]
)
def test_a_killed_process_says_nothing_and_that_is_told(tmp_path: Path, end: str) -> None:
    _, (ended,), report = left(tmp_path, end)
    assert not ended.goodbye and ended.status is None
    assert report.root is not None and report.root.title == "rank 0's black box ends at step 5 without a goodbye"
    assert report.root.cause.value == "unknown.not_established"


def test_the_status_of_a_forked_child_is_not_taken_for_that_of_the_rank(tmp_path: Path) -> None:
    """It too ends through the C library, which has the rank's stream."""
    child = "if os.fork() == 0:\n    raise SystemExit(9)\nos.wait()"
    status, (ended,), report = left(tmp_path, child)
    assert (status, ended.status, report.verdict.value) == (0, 0, "healthy")


def test_a_program_that_closes_all_its_files_finds_nothing_of_ours_in_the_next_one(tmp_path: Path) -> None:
    written = tmp_path / "results.txt"
    opening = f"kept = [os.open({str(written)!r}, os.O_WRONLY | os.O_CREAT) for _ in range(40)]"
    closing = f"os.closerange(3, 60000)\n{opening}\nraise SystemExit(3)"
    status, _, _ = left(tmp_path / "guard", closing)
    assert status == 3 and written.read_bytes() == b""


def test_an_exit_that_the_program_caught_is_no_goodbye(tmp_path: Path) -> None:
    status, (ended,), report = left(tmp_path, "try:\n    sys.exit(3)\nexcept SystemExit:\n    session.step_done()")
    assert (status, ended.status, ended.steps, report.verdict.value) == (0, 0, 6, "healthy")


def test_ctrl_c_is_told_as_that(tmp_path: Path) -> None:
    _, (ended,), _ = left(tmp_path, "raise KeyboardInterrupt")
    assert (ended.status, ended.raised) == (130, "KeyboardInterrupt")


def test_exit_still_does_what_it_did(tmp_path: Path) -> None:
    script = SCRIPT.format(
        folder=str(tmp_path),
        end="import inspect\nassert sys.exit.__name__ == 'exit'\n"
        "try:\n    sys.exit('words')\nexcept SystemExit as e:\n    print(repr(e.code))",
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KEEPSTEP": "off"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "'words'\n" and done.returncode == 0
