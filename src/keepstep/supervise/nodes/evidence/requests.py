# SPDX-License-Identifier: Apache-2.0
"""What ranks are asked for while they run (a pause, a save), the same on all nodes.

A request is a small file beside the black boxes of each node's ranks, and in the attempt's folder of the leader, where
users ask. Whoever changes one tells the leader, who tells the other nodes. Ranks agree among themselves on the step.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from keepstep.base.safe_files import write_whole
from keepstep.store import pause_request, save_request
from keepstep.store.save_request import read_numbers
from keepstep.supervise.nodes.messages import Asked, BadMessage

FILES = (pause_request.REQUEST, pause_request.ANSWER, save_request.REQUEST, save_request.ANSWER)
WITHDRAWN = "withdrawn"


class Requests:
    """Those in one folder, of one attempt."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self._folder, self._attempt = folder, attempt
        self._known: dict[str, dict[str, int]] = {}
        """By file: what the other nodes know of it."""

    def new(self) -> Iterator[Asked]:
        """What was asked or withdrawn here since the last call."""
        for name in FILES:
            numbers, before = read_numbers(self._folder / name), self._known.get(name, {})
            if not numbers and "number" in before:
                numbers = {WITHDRAWN: before["number"]}
            if numbers and numbers != before:
                self._known[name] = numbers
                yield self._message(name)

    def standing(self) -> Iterator[Asked]:
        """All of it, for a node that comes back."""
        for name in self._known:
            yield self._message(name)

    def take(self, asked: Asked) -> None:
        """What was asked or withdrawn elsewhere. Raises :class:`BadMessage`."""
        numbers = dict(asked.numbers)
        if asked.name not in FILES or not numbers:
            raise BadMessage(f"no request to ranks: {asked.name[:80]!r}")
        path = self._folder / asked.name
        self._known[asked.name] = numbers
        with contextlib.suppress(OSError):
            if WITHDRAWN not in numbers:
                write_whole(path, json.dumps(numbers).encode())
            elif read_numbers(path).get("number") == numbers[WITHDRAWN]:
                path.unlink()

    def _message(self, name: str) -> Asked:
        return Asked(attempt=self._attempt, name=name, numbers=tuple(self._known[name].items()))
