# SPDX-License-Identifier: Apache-2.0
"""Asks the process that runs trials, and counts them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from keepstep.errors import Unavailable

FLAGS = ("lines", "finite", "issued", "shown", "plain")
PROGRAM = "from keepstep.shrink.trial_process import main; main()"


class Trials:
    """One trial at a time. ``close`` ends what runs."""

    def __init__(self, cwd: str, folders: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._about = {"cwd": cwd, "folders": list(folders), "env": dict(env)}
        self._scratch = tempfile.mkdtemp(prefix="keepstep-shrink-")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), self._scratch],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "KEEPSTEP": "off"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._connection, self._answers = ours, ours.makefile("r")

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """What one trial saw."""
        return self._ask(
            {**self._about, **dict.fromkeys(FLAGS, False), "roles": {}, "gone": [], "most_lines": 0, "patience_s": 0.0}
            | order
        )

    def warm_up(self, imports: list[str]) -> list[str]:
        """Have the frameworks imported once, for all trials to come. Returns their names."""
        return list(self._ask({"imports": imports})["warm"])

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self._connection.sendall(json.dumps(order).encode() + b"\n")
        line = self._answers.readline()
        if not line:
            raise Unavailable("the process that runs the trials has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._connection.close()
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)  # a trial that was ended could not
