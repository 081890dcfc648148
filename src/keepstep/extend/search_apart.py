# SPDX-License-Identifier: Apache-2.0
"""A user's pattern is searched for in a child process. The kernel ends a search that takes too long.

Python's ``re`` may need hours for one line, and which patterns do cannot be told beforehand. The child searches as this
process would, so named groups and places are the same. After ``LONGEST_S`` of processor time the child is killed,
and that pattern is not used again.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from keepstep.base.worker_pool import Messages, Send, Worker
from keepstep.parse.scan.signature import Signature

LONGEST_S = 2.0
"""Of one search, in processor time."""
TOGETHER_S = 10.0
"""Of all searches of one process that were not quick."""
QUICK_S = 0.001
WAIT_TIMES = 10
"""On a busy machine a child may wait this much longer than it works."""


class SearchChild:
    """The child of this process, started when it is first needed, and the time that it may still take."""

    def __init__(self) -> None:
        self.longest_s, self.left_s = LONGEST_S, TOGETHER_S
        self._worker: Worker | None = None
        self._of = 0

    def search(self, expression: str, text: str) -> tuple[Any, float] | None:
        """The answer, and the processor time it took; None: it took too long."""
        if self._worker is None or self._of != os.getpid():  # a fork must not ask its parent's child
            self._worker, self._of = Worker.fork(self._serve), os.getpid()
        self._worker.give(pickle.dumps((expression, text)))
        answer = self._worker.answer(self.longest_s * WAIT_TIMES)
        if answer is None:
            self.end()
            return None
        return pickle.loads(answer)  # type: ignore[no-any-return]

    def end(self) -> None:
        if self._worker is not None and self._of == os.getpid():
            self._worker.end()
        self._worker = None

    def _serve(self, requests: Messages, send: Send) -> None:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        for request in requests:
            expression, text = pickle.loads(request)
            pattern = re.compile(expression)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, self.longest_s)
            match = pattern.search(text)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            found = match and (match.span(), match.groupdict())
            send(pickle.dumps((found, time.process_time() - began)))


@dataclass(frozen=True)
class FoundApart:
    """What rules need of a match."""

    span: tuple[int, int]
    groups: dict[str, str | None]

    def start(self) -> int:
        return self.span[0]

    def groupdict(self) -> dict[str, str | None]:
        return self.groups


class PatternApart:
    """Stands in for a compiled pattern. ``given_up``: why it is not searched for any more."""

    def __init__(self, expression: str, child: SearchChild) -> None:
        self._expression, self._child = expression, child
        self.groupindex = re.compile(expression).groupindex
        self.given_up: str | None = None

    def search(self, text: str) -> FoundApart | None:
        if self.given_up is None and self._child.left_s <= 0:
            self.given_up = "your patterns together took too long; it was not searched for in all lines"
        if self.given_up is not None:
            return None
        answer = self._child.search(self._expression, text)
        if answer is None:
            self._child.left_s -= self._child.longest_s
            limit = f"{self._child.longest_s:g} s"
            self.given_up = f"its pattern took longer than {limit} on one line; it was not searched for from there on"
            return None
        found, took_s = answer
        self._child.left_s -= max(0.0, took_s - QUICK_S)
        return FoundApart(*found) if found else None

    def end(self) -> None:
        """The child is not needed any more."""
        self._child.end()


@dataclass(frozen=True, kw_only=True)
class UsersSignature(Signature):
    """A signature that a user wrote as TOML."""

    name: str
    apart: PatternApart

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return cast("re.Pattern[str]", self.apart)


def users_signature(made: Signature, name: str, child: SearchChild) -> UsersSignature:
    """Raises ``re.error`` if its pattern cannot be compiled."""
    apart = PatternApart(made.expression, child)
    return UsersSignature(made.expression, made.make, made.anchors, made.folds_case, name=name, apart=apart)


def users_signatures(rows: tuple[tuple[Signature, ...], ...]) -> Iterator[UsersSignature]:
    """Those that users wrote, once each."""
    yield from dict.fromkeys(each for row in rows for each in row if isinstance(each, UsersSignature))
