# SPDX-License-Identifier: Apache-2.0
"""A launcher as people write them: it starts the ranks, says how each of them ended, and ends a run that is stuck.

It runs as a script of its own, and knows only the file that it is given.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PAUSE_S = 0.2
GRACE_S = 3.0


def main(about: dict[str, Any]) -> int:
    ranks: dict[int, subprocess.Popen[bytes]] = {}
    logs = [Path(each["log"]) for each in about["ranks"]]
    for rank, each in enumerate(about["ranks"]):
        with logs[rank].open("ab") as out:
            ranks[rank] = subprocess.Popen(each["command"], stdout=out, stderr=out, env=each["env"])
        say(f"rank {rank} started, pid {ranks[rank].pid}")
    told: set[int] = set()
    size, last = 0, time.monotonic()
    while len(told) < len(ranks):
        time.sleep(PAUSE_S)
        for rank in sorted(set(ranks) - told):
            status = ranks[rank].poll()
            if status is not None:
                told.add(rank)
                say(f"rank {rank} pid {ranks[rank].pid} {ending(status)}")
        grown = sum(path.stat().st_size for path in logs)
        if grown != size or not all(b"step " in path.read_bytes() for path in logs):
            size, last = grown, time.monotonic()  # a start may take long
        elif about["patience_s"] and time.monotonic() - last > about["patience_s"]:
            cancel(ranks, told, time.monotonic() - last)
            last = time.monotonic() + 1e9
    return int(any(process.returncode for process in ranks.values()))


def cancel(ranks: dict[int, subprocess.Popen[bytes]], told: set[int], seconds: float) -> None:
    """SIGTERM to every rank, SIGKILL to those that stay."""
    for rank in sorted(set(ranks) - told):
        say(f"no progress for {seconds:.0f} s, cancelling rank {rank}")
        ranks[rank].send_signal(signal.SIGTERM)
    time.sleep(GRACE_S)
    for rank in sorted(set(ranks) - told):
        if ranks[rank].poll() is None:
            ranks[rank].kill()


def ending(status: int) -> str:
    """How a process ended."""
    if status < 0:
        return f"exited with signal {-status} ({signal.Signals(-status).name})"
    return f"exited with code {status}"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} launcher: {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
