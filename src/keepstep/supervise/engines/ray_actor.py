# SPDX-License-Identifier: Apache-2.0
"""What Ray runs on each node: an actor that starts the node's agent, a process of its own, and waits for its end.

The agent is not a thread of the actor, because Ray ends the actor's process when it likes. The agent then finds its
standard input closed, or is killed by Ray as the actor's child; either way its reaper ends the ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from keepstep.supervise.engines.ray_cluster import ray_module

MOST_WORDS = 4000
END_S = 5.0


class AgentHost:
    """One per node. Its methods are called by the launching process; ``wait`` beside the others."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._words = b""
        self._reading: threading.Thread | None = None
        self._begun = threading.Event()

    def __repr__(self) -> str:
        return socket.gethostname()  # what Ray puts before the lines that ranks print

    def begin(self, words: list[str], cwd: str | None, brief: dict[str, str | int]) -> str:
        """Start the agent. ``brief`` is for its standard input, because others can see a command line.

        Returns the id that Ray gave this node. Raises ``RuntimeError`` where it cannot be started.
        """
        ray: Any = ray_module()
        context = ray.get_runtime_context()
        if context.runtime_env.get("working_dir"):
            cwd = None  # Ray brought the job's files here, and this process works among them
        if cwd is not None and not Path(cwd).is_dir():
            raise RuntimeError(f"there is no folder {cwd} here; give the job a working_dir")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "keepstep", *words],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._pass_on, daemon=True)
        self._reading.start()
        self._begun.set()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already: wait() says how
            line = json.dumps({**brief, "address": ray.util.get_node_ip_address()})
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        return str(context.get_node_id())

    def wait(self) -> tuple[int, str]:
        """The status of the agent, and the last line it wrote to standard error."""
        self._begun.wait()  # Ray may call this one first
        assert self._process is not None and self._reading is not None
        status = self._process.wait()
        self._reading.join(END_S)
        said = self._words.decode(errors="replace").strip().splitlines()
        return status, said[-1] if said else "nothing was said"

    def end(self) -> None:
        """The run is over, and the agent was told so: close its input, and end it if it stays."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()

    def _pass_on(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        for line in self._process.stderr:
            self._words = (self._words + line)[-MOST_WORDS:]
            with contextlib.suppress(OSError):
                os.write(2, line)
