# SPDX-License-Identifier: Apache-2.0
"""Our words on a standard error that is not ours alone: never inside a progress bar, wherever it goes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

SAYS = "from keepstep.base.own_line import say_on_own_line as say; import sys; put = sys.stderr.write\n"
BAR = "put('\\r45%|####     | 9/20')\n"


def test_in_a_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log:
        subprocess.run([sys.executable, "-c", f"{SAYS}{BAR}say('one'); say('two')"], stderr=log, timeout=60, check=True)
    assert (tmp_path / "log").read_bytes() == b"\r45%|####     | 9/20\none\ntwo\n"


def shown(data: bytes, columns: int) -> list[str]:
    """What a terminal of this width shows: carriage returns, and lines that wrap when one more letter comes."""
    rows, row, column = [[" "] * columns], 0, 0
    for letter in data.decode():
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row, rows = row + 1, [*rows, [" "] * columns]
        else:
            if column == columns:
                row, column, rows = row + 1, 0, [*rows, [" "] * columns]
            rows[row][column] = letter
            column += 1
    return ["".join(each).rstrip() for each in rows]


def test_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    code = f"{SAYS}say('zero')\n{BAR}say('one'); say('two')"
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env=environment, timeout=60, check=True)
    os.close(theirs)
    data = b""
    try:
        while piece := os.read(ours, 4096):
            data += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert shown(data, 40) == ["zero", "45%|####     | 9/20", "one", "two", ""]


def test_into_a_pipe_that_another_process_draws_into() -> None:
    code = f"{SAYS}say('one'); say('two', others_draw=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stderr == b"one\n\ntwo\n"


def test_into_a_pipe_below_a_bar_of_tqdm() -> None:
    pytest.importorskip("tqdm")
    code = f"import tqdm\n{SAYS}bar = tqdm.tqdm(total=9); bar.update(3); bar.refresh()\n"
    code += "say('one')\nbar.close(); say('two')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "\none\n" in done.stderr and done.stderr.endswith("\ntwo\n") and "\n\ntwo" not in done.stderr
