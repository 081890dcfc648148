# SPDX-License-Identifier: Apache-2.0
"""Start `keepstep run` for real, on small scripts, and wait for what shall happen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT_S = 180.0
OURS = (
    "KEEPSTEP",
    "KEEPSTEP_DIR",
    "KEEPSTEP_RUN",
    "RANK",
    "WORLD_SIZE",
    "TF_CONFIG",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
)


class Running:
    """A `keepstep run` that was started in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        script: str,
        env: dict[str, str] | None = None,
        command: list[str] | None = None,
    ) -> None:
        self.folder = folder
        (folder / "train.py").write_text(script)
        clean = {name: value for name, value in os.environ.items() if name not in OURS}
        words = command or [sys.executable, "train.py"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "keepstep", "run", "--no-check", *options, "--", *words],
            cwd=folder,
            env={**clean, "COLUMNS": "200", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.out = self.err = ""

    def finish(self, limit_s: float = LIMIT_S) -> int:
        """Wait for its end, and return its status."""
        self.out, self.err = self.process.communicate(timeout=limit_s)
        return self.process.returncode

    @property
    def run(self) -> Path:
        """The run's folder."""
        return wait_for(lambda: next(iter(sorted((self.folder / ".keepstep" / "runs").glob("2*"))), None))

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / "manifest.json").read_text())
        return found

    def log(self, rank: int, attempt: int = 0) -> str:
        path = self.run / f"attempt-{attempt}" / f"rank{rank}.log"
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def wait_for(question: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
    """The first answer that is something."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        answer = question()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def why(path: Path, *options: str) -> str:
    """What `keepstep why` prints of a run folder."""
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "why", *options, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=LIMIT_S,
    )
    return done.stdout
