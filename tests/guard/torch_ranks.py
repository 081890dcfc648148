# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a small PyTorch training and reads what their guards wrote down."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding
from keepstep.sources.host.ports import free_ports

SCRIPT = Path(__file__).with_name("torch_training.py")
PATIENCE_S = 150.0


class Ranks:
    """Some processes, each with its output in a file."""

    def __init__(self, folder: Path, arguments: list[str], ranks: int = 2, script: Path = SCRIPT, **env: str) -> None:
        self.folder = folder
        self.guard = folder / "guard"
        (port,) = free_ports(1)
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "VIRTUAL_ENV", "LANG", "TMPDIR", "PYTHONPATH")
            if name in os.environ
        }
        kept |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
        kept |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(self.guard)} | env
        self.processes = []
        for rank in range(ranks):
            own = kept | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            with (folder / f"rank{rank}.log").open("wb") as log:
                command = ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", sys.executable, str(script), *arguments]
                self.processes.append(
                    subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
                )

    def ended(self) -> list[int]:
        """Wait for all of them; their exit codes."""
        end = time.monotonic() + PATIENCE_S
        return [process.wait(max(0.1, end - time.monotonic())) for process in self.processes]

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Wait until it holds; returns the answer."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"it never came to that; the logs:\n{self.logs()}")

    def troubles(self) -> list[Finding]:
        """What `why` finds, except a slow rank: while other tests use the processors, a rank may really be slow."""
        return [
            found for found in explain_paths([self.guard]).report.findings if not found.cause.value.startswith("slow.")
        ]

    def log(self, rank: int) -> str:
        return (self.folder / f"rank{rank}.log").read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(self.log(rank) for rank in range(len(self.processes)))

    def notes(self, *facts: str) -> list[dict[str, Any]]:
        """What the guards wrote down, of these kinds, or of all."""
        found = []
        for path in sorted(self.guard.glob("*.jsonl")):
            for line in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    note = json.loads(line)
                    if not facts or note["fact"] in facts:
                        found.append(note)
        return found

    def noted(self) -> set[str]:
        """The kinds of what was written down, except those that depend on timing.

        The watcher reports an exit with status 0 soon or not at all, and a rank may be late while other tests run.
        """
        chance = ("ProcessExited", 0), ("RankLate", None)
        return {note["fact"] for note in self.notes() if (note["fact"], note["fields"].get("code")) not in chance}

    def results(self) -> list[str]:
        return [line.partition("ended with ")[2] for line in self.logs().splitlines() if "ended with" in line]


@contextlib.contextmanager
def ranks(folder: Path, *arguments: str, count: int = 2, script: Path = SCRIPT, **env: str) -> Iterator[Ranks]:
    """Ranks that are ended, whatever happens."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Ranks(folder, list(arguments), count, script, **env)
    try:
        yield running
    finally:
        for process in running.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
