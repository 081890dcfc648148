# SPDX-License-Identifier: Apache-2.0
"""Children that wait with pystack loaded: one whose look failed lets go by ending, and another takes its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.sources import pystack_child
from keepstep.sources.pystack_servers import PystackServers

pytest.importorskip("pystack")
COMMAND = [sys.executable, "-I", str(Path(pystack_child.__file__)), "serve"]


def test_a_look_that_failed_ends_its_child_and_the_next_one_is_answered() -> None:
    servers = PystackServers(COMMAND, 1)
    waiting = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"], stdout=subprocess.PIPE)
    try:
        assert waiting.stdout is not None and waiting.stdout.readline() == b"up\n"
        gone = servers.ask(["remote", "999999999", "native"], 60.0)
        assert gone is not None and "error" in json.loads(gone)
        for _ in range(2):
            found = servers.ask(["remote", str(waiting.pid), "plain"], 60.0)
            assert found is not None and json.loads(found)["threads"]
        waiting.kill()
        assert waiting.wait(timeout=30) == -9, "nobody holds it"
    finally:
        waiting.kill()
        waiting.wait()
        assert waiting.stdout is not None
        waiting.stdout.close()
        servers.close()
