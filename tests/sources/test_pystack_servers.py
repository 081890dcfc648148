# SPDX-License-Identifier: Apache-2.0
"""Children that wait with pystack loaded: one whose look failed lets go by ending, and another takes its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.sources.host import processes
from keepstep.sources.stacks import pystack_child
from keepstep.sources.stacks.pystack_servers import PystackServers

pytest.importorskip("pystack")
COMMAND = [sys.executable, "-I", str(Path(pystack_child.__file__)), "serve"]


def test_a_look_that_failed_ends_its_child_and_the_next_one_is_answered() -> None:
    servers = PystackServers(COMMAND, 1)
    waiting = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"], stdout=subprocess.PIPE
    )
    try:
        assert waiting.stdout is not None and waiting.stdout.readline() == b"up\n"
        gone = servers.ask(["remote", "999999999", "60", "native"], 60.0)
        assert gone is not None and "error" in json.loads(gone)
        for _ in range(2):
            found = servers.ask(["remote", str(waiting.pid), "60", "plain"], 60.0)
            assert found is not None and json.loads(found)["threads"]
        waiting.kill()
        assert waiting.wait(timeout=30) == -9, "nobody holds it"
    finally:
        waiting.kill()
        waiting.wait()
        assert waiting.stdout is not None
        waiting.stdout.close()
        servers.close()


def test_a_look_that_stops_a_process_for_too_long_ends_and_is_not_tried_again(tmp_path: Path) -> None:
    """Seen from outside: a stopped process is released, and stays so."""
    asked = tmp_path / "asked"
    code = (
        f"import sys, time; sys.path.insert(0, {str(Path(pystack_child.__file__).parent)!r}); import pystack_child\n"
        f"while sys.stdin.buffer.read(4):\n    open({str(asked)!r}, 'a').write('x'); pystack_child._end_after(0.05); "
        f"time.sleep(600)\n"
    )
    servers = PystackServers([sys.executable, "-c", code], 1)
    try:
        assert servers.ask(["remote", "1", "0.05", "native"], 60.0) is None
        assert asked.read_text() == "x"
        assert servers.ask(["remote", "1", "0.05", "native"], 60.0) is None, "the next look is made by another one"
        assert asked.read_text() == "xx"
    finally:
        servers.close()


@pytest.mark.parametrize(("tracer", "state"), [("pystack_child.py", "S"), ("gdb", "t")])
def test_a_process_whose_stack_is_just_taken_is_not_called_stopped(tracer: str, state: str) -> None:
    traced = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    attach = f"import ctypes, os, time; ctypes.CDLL(None).ptrace(16, {traced.pid}, 0, 0); os.waitpid({traced.pid}, 0)"
    attach += "; print('holds', flush=True); time.sleep(600)"
    holds = subprocess.Popen([sys.executable, "-c", attach, tracer], stdout=subprocess.PIPE)
    try:
        assert holds.stdout is not None
        if holds.stdout.readline() != b"holds\n":
            pytest.skip("not permitted to trace")
        reading = processes.read(traced.pid)
        assert reading is not None and reading.state == state
    finally:
        holds.kill()
        holds.communicate()
        traced.kill()
        traced.wait()
