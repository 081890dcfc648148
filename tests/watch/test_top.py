# SPDX-License-Identifier: Apache-2.0
"""`keepstep top`: one screen, never too large, what is wrong first, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from keepstep.watch.look import RunLook
from keepstep.watch.past import Grid
from keepstep.watch.top.loop import lines
from keepstep.watch.top.screen import Look, screen
from tests.supervise.starting import LIMIT_S, Running


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (80, 8), (200, 60), (20, 3)])
def test_a_screen_is_never_too_large(failed: Running, width: int, height: int) -> None:
    drawn = lines(RunLook(failed.run), Look(width, height, plain=True))
    assert len(drawn) <= height and max(map(len, drawn)) <= width
    assert all(line.isascii() and line.isprintable() for line in drawn)


def test_the_first_lines_name_rank_and_cause(failed: Running) -> None:
    text = "\n".join(lines(RunLook(failed.run), Look())[:10])
    assert "rank 1" in text and "user.code_exception" in text and "KeyError" in text


def test_what_ranks_say_cannot_steer_the_terminal(failed: Running) -> None:
    view = RunLook(failed.run).see()
    bad = replace(view.problems[0], title="\x1b]0;owned\x07\u202e", because="a\x1b[2Jb", decided="\r\x9b")
    hostile = replace(view, problems=(bad,), command="\x1b[31m", name="a\nb")
    drawn = screen(hostile, Grid((), 0.0, 1.0, ()), [], Look())
    assert all(line.isprintable() for line in drawn)


def test_thousands_of_ranks_fit_and_the_blamed_one_is_among_them(failed: Running) -> None:
    view = RunLook(failed.run).see()
    blamed, other = view.ranks[0], view.ranks[1]
    many = replace(view, ranks=(blamed, *(replace(other, rank=rank) for rank in range(2, 4096))))
    drawn = screen(many, Grid((), 0.0, 1.0, ()), [], Look())
    assert len(drawn) == 24 and any(line.startswith(">    1 ") for line in drawn)
    assert any("more ranks" in line for line in drawn)


def test_q_ends_it_and_gives_the_screen_back(failed: Running) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "keepstep", "top", str(failed.run)]
    env = {**os.environ, "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        shown = _until(ours, b"quits")
        assert b"\x1b[?1049h" in shown and b"user.code_exception" in shown
        os.write(ours, b"q")
        shown = _until(ours, b"\x1b[?1049l")
        assert b"\x1b[?25h" in shown
        assert process.wait(LIMIT_S) == 0
    os.close(theirs)
    os.close(ours)


def _until(handle: int, text: bytes) -> bytes:
    seen, end = b"", time.monotonic() + LIMIT_S
    while text not in seen and time.monotonic() < end:
        seen += os.read(handle, 65536)
    assert text in seen
    return seen
