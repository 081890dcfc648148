# SPDX-License-Identifier: Apache-2.0
"""A request to save, and its answer: two small files beside the black boxes of a running job's ranks."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular, write_whole

REQUEST, ANSWER = "save-request.json", "save-answer.json"
LARGEST = 1000


def ask(folder: Path) -> int:
    """Write a request; returns its number, which is its time."""
    number = time.time_ns()
    write_whole(folder / REQUEST, json.dumps({"number": number}).encode())
    return number


def asked(folder: Path) -> int | None:
    """The number of the newest request."""
    return read_numbers(folder / REQUEST).get("number")


def answer(folder: Path, number: int, step: int) -> None:
    """For rank 0: all ranks save at one step, about this one."""
    write_whole(folder / ANSWER, json.dumps({"number": number, "step": step}).encode())


def answered(folder: Path, number: int) -> int | None:
    """About which step all ranks save, once they have agreed on it."""
    said = read_numbers(folder / ANSWER)
    return said.get("step") if said.get("number") == number else None


def read_numbers(path: Path) -> dict[str, int]:
    """The whole numbers of a small file, by name; none where it cannot be read."""
    with contextlib.suppress(OSError, ValueError), open_regular(path, follow=False) as stream:
        said = foreign_json.loads(stream.read(LARGEST))
        if isinstance(said, dict):
            return {name: value for name, value in said.items() if type(value) is int}
    return {}
