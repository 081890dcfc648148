# SPDX-License-Identifier: Apache-2.0
"""What a rank printed last about its progress, from the end of its log: its loss, and how far it is."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.safe_files import open_regular

READ = 4096
"""Bytes at the end of a log that has grown."""
LOSS = re.compile(
    rb"(?i)(?<![a-z])loss['\"]?\s{0,4}[:=]?\s{0,4}(?:tensor\()?(-?\d[\d.]{0,20}(?:e[+-]?\d{1,3})?|-?nan|-?inf)\b"
)
EPOCH = re.compile(rb"(?i)\bepoch\W{0,4}(\d{1,9})\s{0,2}(?:/|of)\s{0,2}(\d{1,9})\b")
STEP = re.compile(
    rb"(?i)(?:\b(?:step|steps|iter|iters|iteration|batch)\W{0,4}|\|\s{0,9})(\d{1,12})\s{0,2}(?:/|of)\s{0,2}(\d{1,12})\b"
)
LEAST = 0.01
"""Of the whole that must have been seen to happen before it is said how long the rest takes."""


@dataclass
class _Log:
    size: int = 0
    loss: float | None = None
    done: float | None = None
    """The share of the training that is over."""
    first: tuple[float, float] | None = None
    """When that was first known, and how much it was."""
    newest: float = 0.0


@dataclass
class PrintedProgress:
    """``look`` at each log about once a second: one that has not grown is not read."""

    _logs: dict[Path, _Log] = field(default_factory=dict)

    def look(self, log: Path, now: float) -> float | None:
        """The loss that was printed last. ``now``: seconds of any clock."""
        known = self._logs.setdefault(log, _Log())
        with contextlib.suppress(OSError, ValueError):
            size = os.stat(log).st_size
            if size != known.size:
                known.size = size
                with open_regular(log, follow=False) as stream:
                    data = os.pread(stream.fileno(), READ, max(0, size - READ))
                if losses := LOSS.findall(data):
                    known.loss = float(losses[-1])
                done = _done(data)
                if done is not None:
                    if known.first is None or done < known.first[1]:
                        known.first = now, done
                    known.done, known.newest = done, now
        return known.loss

    def left_s(self, log: Path, now: float) -> float | None:
        """How long the training will still take at the rate so far; None where it does not say how far it is."""
        known = self._logs.get(log)
        if known is None or known.done is None or known.first is None or known.done - known.first[1] < LEAST:
            return None
        took = (known.newest - known.first[0]) / (known.done - known.first[1])
        return max(0.0, took * (1 - known.done) - (now - known.newest))


def _done(data: bytes) -> float | None:
    """``epoch 2/10 ... step 30/100`` is 13 %."""
    epochs = [(int(at), int(of)) for at, of in EPOCH.findall(data)]
    steps = [(int(at), int(of)) for at, of in STEP.findall(data)]
    epoch, step = epochs[-1:] or [(1, 1)], steps[-1:] or [(0, 1)]
    if not epochs and not steps:
        return None
    (number, of_epochs), (at, of_steps) = epoch[0], step[0]
    if not 0 < number <= of_epochs or not 0 <= at <= of_steps or of_steps < 1:
        return None
    return (number - 1 + at / of_steps) / of_epochs
