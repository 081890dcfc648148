# SPDX-License-Identifier: Apache-2.0
"""Removes all that one lab run made, when the lab ends: well, by Ctrl-C, or killed.

Run as a script of its own (``sweeper.py TOKEN FOLDER``), with a pipe from the lab as standard input. When the pipe
closes, whoever closed it, it ends every process that carries the token in its environment, by its id, removes the
control groups named after the token, and then the folder. Network namespaces and mounts go with their processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE_S = 10.0
VARIABLE = "KEEPSTEP_LAB_TOKEN"


def main() -> int:
    token, folder = sys.argv[1], Path(sys.argv[2])
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end = time.monotonic() + PATIENCE_S
    while (found := carriers(token)) and time.monotonic() < end:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    while (groups := control_groups(token)) and time.monotonic() < end:
        for group in groups:
            with contextlib.suppress(OSError):
                group.rmdir()
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if not found and not folder.exists() else 1


def carriers(token: str) -> list[int]:
    """The living processes, other than this one, that were started with ``token``."""
    mark = f"{VARIABLE}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def control_groups(token: str) -> list[Path]:
    """The control groups of any hierarchy that were made for ``token``."""
    return [
        *Path("/sys/fs/cgroup").glob(f"keepstep-lab-{token}*"),
        *Path("/sys/fs/cgroup").glob(f"*/keepstep-lab-{token}*"),
    ]


if __name__ == "__main__":
    sys.exit(main())
