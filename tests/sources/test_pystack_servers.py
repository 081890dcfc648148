# SPDX-License-Identifier: Apache-2.0
"""Children that wait to look at stacks: they answer, and one that dies or hangs costs an answer and no more."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from keepstep.sources import stacks
from keepstep.sources.pystack_servers import PystackServers

ECHO = "import sys\nfor line in sys.stdin:\n    if 'die' in line: sys.exit(1)\n    if 'hang' in line: __import__('time').sleep(60)\n    print(line.strip().upper(), flush=True)"


def test_each_is_answered_and_what_breaks_is_replaced() -> None:
    servers = PystackServers([sys.executable, "-I", "-c", ECHO], 1)
    try:
        assert servers.ask(["a"], 20.0) == b'["A"]\n'
        assert servers.ask(["die"], 20.0) is None
        assert servers.ask(["b"], 20.0) == b'["B"]\n'
        began = time.monotonic()
        assert servers.ask(["hang"], 0.5) is None
        assert time.monotonic() - began < 10
        assert servers.ask(["c"], 20.0) == b'["C"]\n'
    finally:
        servers.close()


def test_a_program_that_cannot_be_started_gives_no_answer() -> None:
    servers = PystackServers(["/no/such/program"], 1)
    assert servers.ask(["a"], 1.0) is None
    servers.close()


@pytest.mark.skipif(not stacks.have_pystack(), reason="pystack is not installed")
def test_a_waiting_child_sees_what_a_fresh_one_sees() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time\ndef nap(): time.sleep(60)\nprint('up', flush=True)\nnap()"], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    servers = PystackServers([sys.executable, "-I", str(stacks._CHILD), "serve"], 1)
    try:
        for how in ("noblock", "native"):
            answer = servers.ask(["remote", str(process.pid), how], 30.0)
            assert answer is not None
            frames = [frame[0] for thread in json.loads(answer)["threads"] for frame in thread["frames"]]
            assert "nap" in frames
        gone = servers.ask(["remote", "4194305", "noblock"], 30.0)
        assert gone is not None and json.loads(gone)["error"] == "failed"
    finally:
        servers.close()
        process.kill()
        process.communicate()
