# SPDX-License-Identifier: Apache-2.0
"""The call of a function, such as the 152nd of ``should_stop()``, in which all ranks get True.

No call waits until there is a reason. Then each rank reports how many calls it has answered with False, and answers no
more of them before it knows the call that rank 0 names: the first that no rank has answered yet. The guard's threads
do all of this, so a rank that compiles or evaluates meanwhile holds up nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from keepstep.errors import OutOfStep
from keepstep.guard.same_step.channel import Channel
from keepstep.guard.same_step.pauses import pauses


@dataclass(frozen=True)
class Reason:
    """Why all ranks should do it, and by when."""

    number: int
    """Each request has a higher one than those before."""
    by: str
    rank: int = 0
    """The rank that noticed."""
    left_s: float | None = None
    """How long all of them have, if that is known."""


class AgreedCall:
    """``find`` says how to reach the others. ``told`` and ``settled`` hear of the reason, and that a call is agreed."""

    def __init__(
        self,
        topic: str,
        find: Callable[[], Channel | None],
        told: Callable[[Reason], None] = lambda reason: None,
        settled: Callable[[Reason], None] = lambda reason: None,
    ) -> None:
        self._topic, self._find, self._told, self._settled = topic, find, told, settled
        self._lock, self._looking = threading.Lock(), threading.RLock()
        self.passed = 0
        """Calls that were answered with False."""
        self.reason: Reason | None = None
        self.heard_at = 0.0
        """When this rank learned of the reason, by the monotonic clock."""
        self.at: int | None = None
        """The agreed call."""
        self._done = 0
        """The number of the last reason that all ranks have acted on."""
        self._reported = self._tells = False
        self._last_word: dict[str, Any] = {"number": 0}
        self._pid = os.getpid()

    def ask_all(self, reason: Reason) -> None:
        """This rank has noticed the reason: the next look tells the others."""
        if self._take(reason):
            self._tells = True

    def look(self) -> None:
        """One look, by the guard's thread or by a call that waits: for a reason, then for the agreed call."""
        with self._looking:
            if self.reason is None:
                self._hear()
            if self.reason is not None and self.at is None and (at := self._named(self.reason)) is not None:
                self.at = at
                self._settled(self.reason)

    def is_due(self, wait_s: float) -> bool:
        """Count a call; whether it is the agreed one, or a later one. Raises OutOfStep where none is agreed in time."""
        with self._lock:
            if self.reason is None:
                self.passed += 1
                return False
        if self.at is None:
            self._await(wait_s)
        assert self.at is not None
        self.passed += 1
        return self.passed >= self.at

    def done(self) -> None:
        """All ranks do it now: the next reason counts again."""
        with self._looking, self._lock:
            assert self.reason is not None
            self._done, self.reason, self.at, self._reported = self.reason.number, None, None, False

    def leave(self) -> None:
        """This rank leaves the training: it answers no more calls, and the others need not wait for it."""
        with contextlib.suppress(Exception):
            channel = self._find() if self.reason is None and os.getpid() == self._pid else None
            if channel is not None:
                self._report(channel, {**self._last_word, "passed": self.passed, "left": True})

    def _await(self, wait_s: float) -> None:
        trouble = ""
        for _ in pauses(wait_s):
            try:
                self.look()
            except Exception as error:
                trouble = f" ({type(error).__name__}: {error})"
            if self.at is not None:
                return
        by = self.reason.by if self.reason is not None else ""
        raise OutOfStep(f"{by}: not all ranks could agree on a step in {wait_s:.0f} s{trouble[:200]}")

    def _take(self, reason: Reason) -> bool:
        with self._lock:
            if self.reason is not None or reason.number <= self._done:
                return False
            self.reason, self.heard_at = reason, time.monotonic()
        self._told(reason)
        return True

    def _hear(self) -> None:
        channel = self._find()
        said = _read(channel.exchange.get(self._any(channel))) if channel is not None else None
        if said is not None:
            self._take(Reason(**said))

    def _named(self, reason: Reason) -> int | None:
        """The agreed call, once all ranks have reported."""
        channel = self._find()
        if channel is None:
            return self.passed + 1
        if self._tells:
            with contextlib.suppress(Exception):  # another rank was first: TensorFlow lets nobody replace its word
                channel.exchange.put(self._any(channel), json.dumps(asdict(reason)))
            self._tells = False
        if channel.rank == 0:
            heard = [_read(channel.exchange.get(channel.key(self._topic, rank))) for rank in range(1, channel.world)]
            passed = [
                each["passed"]
                for each in heard
                if each is not None and (each["number"] == reason.number or each.get("left"))
            ]
            if len(passed) < channel.world - 1:
                return None
            at = max([self.passed, *passed]) + 1
            self._report(channel, {"number": reason.number, "at": at})
            return int(at)
        if not self._reported:
            self._report(channel, {"number": reason.number, "passed": self.passed})
            self._reported = True
        said = _read(channel.exchange.get(channel.key(self._topic, 0)))
        if said is None or (said["number"] != reason.number and not said.get("left")):
            return None
        return int(said["at"]) if said["number"] == reason.number else max(self.passed, said["passed"]) + 1

    def _report(self, channel: Channel, said: dict[str, Any]) -> None:
        self._last_word = said
        channel.exchange.put(channel.key(self._topic, channel.rank), json.dumps(said))

    def _any(self, channel: Channel) -> str:
        """The key under which any rank may say why."""
        return f"keepstep/{channel.who.attempt}/{self._topic}/any"


def _read(text: str | None) -> dict[str, Any] | None:
    return json.loads(text) if text is not None else None
