# SPDX-License-Identifier: Apache-2.0
"""What a node measures, for the leader's limits: only those readings that a limit is about, and every few seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from keepstep.base import foreign_json
from keepstep.supervise.nodes.messages import BadMessage, Measured, Message, Start
from keepstep.supervise.watch.history_recorder import Measurements

EVERY_S = 2.0
KINDS = ("rank", "host", "gpu")


class Measuring:
    """Of one node, in one attempt."""

    def __init__(self, start: Start, send: Callable[[Message], object]) -> None:
        self._attempt, self._wanted, self._send = start.attempt, frozenset(start.readings), send
        self._due = 0.0

    def take(self, newest: Measurements) -> None:
        """What was measured just now."""
        now = time.monotonic()
        if now < self._due or not self._wanted:
            return
        self._due = now + EVERY_S
        told = {
            kind: {str(subject): chosen for subject, each in subjects.items() if (chosen := self._chosen(each))}
            for kind, subjects in newest.items()
        }
        self._send(Measured(attempt=self._attempt, told=json.dumps(told)))

    def _chosen(self, readings: dict[str, float]) -> dict[str, float]:
        return {name: float(f"{value:.7g}") for name, value in readings.items() if name in self._wanted}


def measurements(told: str) -> Measurements:
    """What a node said. Raises :class:`BadMessage`."""
    try:
        found: Measurements = {kind: {} for kind in KINDS}
        for kind, subjects in foreign_json.loads(told).items():
            for subject, readings in subjects.items():
                found[kind][int(subject) if kind == "rank" else subject[:80]] = {
                    name: float(value) for name, value in readings.items()
                }
        return found
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise BadMessage(f"no measurements: {type(error).__name__}: {error}") from error
