# SPDX-License-Identifier: Apache-2.0
"""A request to profile some ranks, and their answers: small files beside the black boxes of a running job's ranks."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular, write_whole

REQUEST = "profile-request.json"
LARGEST = 100_000


@dataclass(frozen=True)
class Request:
    """Which ranks, from which step on, and how many steps."""

    number: int
    """Its time."""
    ranks: frozenset[int]
    first: int
    steps: int

    @property
    def folder(self) -> str:
        """Where the ranks write, beside their boxes."""
        return f"profile-{self.number}"


@dataclass(frozen=True)
class Answer:
    """What one rank recorded."""

    rank: int
    first: int
    """It recorded from the end of this step..."""
    last: int
    """... to the end of this one."""
    seconds: float
    failed: str | None = None


def ask(folder: Path, ranks: Iterable[int], first: int, steps: int) -> Request:
    """Write a request."""
    request = Request(time.time_ns(), frozenset(ranks), first, steps)
    said = {"number": request.number, "ranks": sorted(request.ranks), "first": first, "steps": steps}
    write_whole(folder / REQUEST, json.dumps(said).encode())
    return request


def asked(folder: Path) -> Request | None:
    """The newest request."""
    said = _read(folder / REQUEST)
    number, ranks, first, steps = (said.get(name) for name in ("number", "ranks", "first", "steps"))
    if type(number) is type(first) is type(steps) is int and isinstance(ranks, list):
        return Request(number, frozenset(rank for rank in ranks if type(rank) is int), first, steps)
    return None


def answer(folder: Path, answer: Answer) -> None:
    """For a rank: it is done, or failed. ``folder``: the request's own."""
    write_whole(folder / f"rank{answer.rank}.json", json.dumps(vars(answer)).encode())


def answered(folder: Path, rank: int) -> Answer | None:
    """What this rank said."""
    said = _read(folder / f"rank{rank}.json")
    with contextlib.suppress(KeyError, TypeError, ValueError):
        failed = said.get("failed")
        return Answer(rank, int(said["first"]), int(said["last"]), float(said["seconds"]), failed and str(failed))
    return None


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open_regular(path, follow=False) as stream:
        said = foreign_json.loads(stream.read(LARGEST))
        if isinstance(said, dict):
            return said
    return {}
