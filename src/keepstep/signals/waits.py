# SPDX-License-Identifier: Apache-2.0
"""What a thread waits for, by the names of its frames. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.knowledge import read_table
from keepstep.model.facts.process import Frame
from keepstep.signals.stacks import LONGEST_SYMBOL, Whose, whose


class WaitKind(Enum):
    """What kind of thing a thread waits for."""

    COLLECTIVE = "a collective"
    LEAVING = "the end of the others"
    MEETING = "the start of the others"
    ANSWER = "an answer of another rank"
    SLEEP = "a sleep"
    LOCK = "a lock"
    INPUT = "input data"
    FILE = "a file or socket"
    CHILDREN = "child processes"
    DEVICE = "the device"
    PERSON = "somebody's answer"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for; ``name`` is the operation in plain words."""

    kind: WaitKind
    name: str

    @property
    def vague(self) -> bool:
        """Whether a healthy long step also spends its time there."""
        return self.name in _VAGUE


_STEP, _BACKWARD = "a tf.function step", "the gradient all-reduce of backward"
_VAGUE = (_STEP, _BACKWARD)


@cache
def read_waits() -> list[tuple[WaitKind, str | None, re.Pattern[str], re.Pattern[str] | None]]:
    """Innermost first, as ``knowledge/waits.toml`` has them."""
    return [
        (
            WaitKind(row["kind"]),
            row.get("name"),
            lazy_pattern(row["function"], most=LONGEST_SYMBOL),
            lazy_pattern(row["file"]) if "file" in row else None,
        )
        for row in read_table("waits")["wait"]
    ]


_CARRIED = {WaitKind.LOCK, WaitKind.SLEEP, WaitKind.FILE, WaitKind.DEVICE}
_AWAITING = {WaitKind.COLLECTIVE, WaitKind.LEAVING, WaitKind.MEETING, WaitKind.ANSWER}


def waits_in(frames: Iterable[Frame]) -> Wait | None:
    """What the thread waits for, as far as the names of its frames show (innermost first).

    Searched from the inside to the user's own line: what lies beyond that line is where the user came from, not what
    the thread waits for.
    """
    inner: Wait | None = None
    for frame in frames:
        found = _wait_of(frame)
        if found is not None:
            if found.kind in _AWAITING or found.kind in (WaitKind.INPUT, WaitKind.CHILDREN, WaitKind.PERSON):
                return found
            if inner is None or (inner.kind in _CARRIED and found.kind is WaitKind.DEVICE):
                inner = found
        if not frame.is_native and whose(frame) is Whose.USER:
            break
    return inner


def _wait_of(frame: Frame) -> Wait | None:
    for kind, name, function, file in read_waits():
        if file is not None and not (frame.file and file.search(frame.file)):
            continue
        match = function.search(frame.function)
        if match:
            return Wait(kind, name or match["op"])
    return None


def awaits_others(wait: Wait | None) -> bool:
    """Whether a wait ends only when other ranks arrive."""
    return wait is not None and wait.kind in _AWAITING
