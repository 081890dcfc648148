# SPDX-License-Identifier: Apache-2.0
"""What a scheduler's own client says about a job: the shape of the answer, and how clients are asked.

Schedulers are asked only through their clients (``scontrol``, ``sacct``, ``kubectl``), as the calling user, and within
a time limit.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from keepstep.model.evidence import Coverage, Evidence
from keepstep.model.facts.base import Fact
from keepstep.sources.files.left_files import FileKind, LeftFile

TIME_LIMIT_S = 60.0
LARGEST_ANSWER = 256 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client printed. ``found`` is False when there is no such program."""

    status: int = 0
    out: bytes = b""
    err: str = ""
    found: bool = True

    @property
    def text(self) -> str:
        return self.out.decode(errors="replace").replace("\0", "")

    @property
    def complaint(self) -> str:
        """The last line on standard error, where clients put their conclusion."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


Ask = Callable[[Sequence[str]], Answer]
"""Runs one client with its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeft:
    """What a job left behind, as its scheduler knows it: files, texts from the client, facts, and blind spots."""

    name: str
    paths: tuple[Path, ...] = ()
    texts: tuple[LeftFile, ...] = ()
    evidence: tuple[Evidence[Fact], ...] = ()
    coverage: tuple[Coverage, ...] = ()
    ids: tuple[str, ...] = ()
    """What its processes know it as."""
    folders: tuple[Path, ...] = ()
    """Where its processes were started."""
    owner: int | None = None
    """Whose it is."""


def ask_client(command: Sequence[str], limit_s: float = TIME_LIMIT_S) -> Answer:
    """Run a client to its end, or to the time limit."""
    if shutil.which(command[0]) is None:
        return Answer(status=127, err=f"{command[0]} is not on the PATH", found=False)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Answer(status=124, err=f"{command[0]} did not answer within {limit_s:.0f} s")
    except OSError as error:
        return Answer(status=126, err=f"{command[0]} could not be run: {error.strerror}")
    return Answer(done.returncode, done.stdout[-LARGEST_ANSWER:], done.stderr.decode(errors="replace"))


def as_log(name: str, content: bytes) -> LeftFile:
    """A text that a client printed, as one of the logs."""
    return LeftFile(None, name, FileKind.LOG, len(content), None, content)
