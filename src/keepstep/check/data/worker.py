# SPDX-License-Identifier: Apache-2.0
"""A process that reads units: one JSON line in for each task, one out for each result, and a sign of life in between.

Native code that decodes foreign bytes runs only here. If it crashes, one file has no result, and a new worker goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import Asked, Unit, to_plain, unit_from, unit_to_list
from keepstep.check.data.walk import At, walk
from keepstep.model.codec import build

TELL_EVERY_S = 0.3
FOUND_AT_ONCE = 500


def main() -> None:
    """Answer until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    _send(answers, {"ready": True})
    for line in tasks:
        task = json.loads(line)
        if "walk" in task:
            _walk(task["walk"], frozenset(task["skip"]), answers)
        else:
            _read(task, answers)


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode("utf-8", "surrogateescape") + b"\n")


def _read(task: dict[str, Any], answers: BinaryIO) -> None:
    asked: Asked = build(Asked, task["asked"])
    for number, each in enumerate(task["units"]):
        looked = read_unit(unit_from(each, 0), asked, _teller(answers))
        _send(answers, {"done": number, "looked": to_plain(looked)})


def _teller(answers: BinaryIO) -> Callable[[int], None]:
    said = time.monotonic()
    waiting = 0

    def told(read: int) -> None:
        nonlocal said, waiting
        waiting += read
        now = time.monotonic()
        if now - said >= TELL_EVERY_S:
            _send(answers, {"read": waiting})
            said, waiting = now, 0

    return told


def _walk(paths: list[str], skip: frozenset[str], answers: BinaryIO) -> None:
    """List the units below these paths, in order. A second thread says where the search is, if it moves."""
    at, turn, ended = At(), threading.Lock(), threading.Event()
    waiting: list[list[Any]] = []

    def send(answer: dict[str, Any] | None = None) -> None:
        with turn:
            if some := waiting[:]:
                _send(answers, {"found": some})
                del waiting[: len(some)]
            if answer is not None:
                _send(answers, answer)

    def watch() -> None:
        said = ""
        while not ended.wait(TELL_EVERY_S):
            if at.path != said:
                said = at.path
                send({"at": said})

    threading.Thread(target=watch, daemon=True).start()
    for each in walk(paths, at, skip):
        if isinstance(each, Unit):
            waiting.append(unit_to_list(each))
            if len(waiting) >= FOUND_AT_ONCE:
                send()
        else:
            send({"path": each} if isinstance(each, int) else {"left": list(each)})
    ended.set()
    send({"end": True})


if __name__ == "__main__":
    main()
