# SPDX-License-Identifier: Apache-2.0
"""A request that all ranks wait after the same step: a small file beside their black boxes, there while it stands."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.safe_files import write_whole
from keepstep.store.save_request import read_numbers

REQUEST, ANSWER = "pause-request.json", "pause-answer.json"
WANTED = "KEEPSTEP_PAUSE"
"""`keepstep run` sets it for its ranks where all of them take the same steps."""
ASKS = "asking all ranks to pause after the same step"
"""What is said when it is asked for, after the reason and a semicolon."""
AGREE_S = 30.0
"""For all ranks to agree on a step."""


@dataclass(frozen=True)
class Request:
    number: int
    """Its time."""
    longest_s: int


def ask(folder: Path, longest_s: float) -> Request:
    """Write a request."""
    request = Request(time.time_ns(), round(longest_s))
    write_whole(folder / REQUEST, json.dumps(vars(request)).encode())
    return request


def asked(folder: Path) -> Request | None:
    """The request that stands."""
    said = read_numbers(folder / REQUEST)
    return Request(said["number"], said["longest_s"]) if {"number", "longest_s"} <= set(said) else None


def answer(folder: Path, number: int, step: int) -> None:
    """For rank 0: all ranks have agreed to wait after this step."""
    write_whole(folder / ANSWER, json.dumps({"number": number, "step": step}).encode())


def answered(folder: Path, number: int) -> int | None:
    """After which step all ranks wait, once they have agreed on it."""
    said = read_numbers(folder / ANSWER)
    return said.get("step") if said.get("number") == number else None


def withdraw(folder: Path) -> None:
    """The ranks go on, or do not even pause. Where this fails, they wait until its time is over."""
    with contextlib.suppress(OSError):
        (folder / REQUEST).unlink()
