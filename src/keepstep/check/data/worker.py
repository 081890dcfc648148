# SPDX-License-Identifier: Apache-2.0
"""A process that reads units: one message of JSON in for each task, one out for each result, and signs of life.

Native code that decodes foreign bytes runs only here. If it crashes, one file has no result, and a new worker goes on.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from keepstep.base.worker_pool import messages, send
from keepstep.check.data.find.walk import At, walk
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, to_plain, unit_from, unit_to_list
from keepstep.model.codec import build

TELL_EVERY_S = 0.3
FOUND_AT_ONCE = 500


def main() -> None:
    """Answer until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    _send(answers, {"read": 0})  # a sign that it has started
    for message in messages(0):
        task = json.loads(message)
        if "walk" in task:
            _walk(task, answers)
        else:
            _read(task, answers)


def _send(answers: int, answer: dict[str, Any]) -> None:
    send(answers, json.dumps(answer).encode())


def _read(task: dict[str, Any], answers: int) -> None:
    asked: ReadRequest = build(ReadRequest, task["asked"])
    for each in task["units"]:
        _send(answers, {"looked": to_plain(read_unit(unit_from(each, 0), asked, _teller(answers)))})


def _teller(answers: int) -> Callable[[int], None]:
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


def _walk(task: dict[str, Any], answers: int) -> None:
    """List the units below these paths, in order. A second thread says where the search is, if it moves."""
    at, turn, ended = At(), threading.Lock(), threading.Event()
    waiting: list[list[Any]] = []

    def tell(answer: dict[str, Any] | None = None) -> None:
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
                tell({"at": said})

    threading.Thread(target=watch, daemon=True).start()
    for each in walk(task["walk"], at, frozenset(task["skip"]), follow=task["follow"]):
        if isinstance(each, DataUnit):
            waiting.append(unit_to_list(each))
            if len(waiting) >= FOUND_AT_ONCE:
                tell()
        else:
            tell({"path": each} if isinstance(each, int) else {"left": list(each)})
    ended.set()
    tell({"end": True})


if __name__ == "__main__":
    main()
