# SPDX-License-Identifier: Apache-2.0
"""The pause of all ranks of one attempt: asked for when a limit is passed, withdrawn when that is over.

`keepstep pause` asks for one too, which ends in time or by `keepstep resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.wording import duration
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.thresholds import Alert
from keepstep.store import pause_request
from keepstep.supervise.watch.hang_detector import Sign

LEAVES_S = 5.0
"""For ranks to go on once the request is withdrawn."""


@dataclass
class Pause:
    """``folder``: that of the attempt's guards."""

    folder: Path
    say: Callable[[str], None]
    _request: pause_request.Request | None = None
    _asked_at: float = 0.0
    _ended_at: float | None = None
    _by: set[tuple[str, int | str]] = field(default_factory=set)
    """The readings that asked for it, and of whom; none if somebody did."""

    def hear(self, alert: Alert, now: float) -> None:
        """A limit that asks for a pause was passed, or is no longer."""
        by = (alert.threshold.reading, alert.subject)
        if not alert.begins:
            if self._by == {by}:
                self.end(now)
            self._by.discard(by)
        elif self._request is None:
            try:
                self._request, self._asked_at = pause_request.ask(self.folder, alert.threshold.pause_s), now
                self._by.add(by)
            except OSError as error:
                self.say(f"the ranks cannot be asked to pause: {error.strerror}")
        elif self._by:
            self._by.add(by)

    def tick(self, now: float) -> None:
        """End it in time; and see whether somebody else asked, or let the ranks go on."""
        standing = pause_request.asked(self.folder)
        if standing is None:
            self.end(now)
        elif standing != self._request:
            self._request, self._asked_at = standing, now
            self._by.clear()
            self.say(f"a user wants a pause (`keepstep pause`); {pause_request.ASKS}")
        elif now - self._asked_at >= self._request.longest_s:
            self.say(f"the pause has lasted {duration(self._request.longest_s)}; the ranks go on")
            self.end(now)

    def end(self, now: float) -> None:
        """The ranks go on; also when the attempt ends."""
        if self._request is not None:
            self._request, self._ended_at = None, now
            self._by.clear()
            pause_request.withdraw(self.folder)

    def explains(self, signs: Iterable[Sign], now: float) -> bool:
        """Whether it is why ranks do not move: they are agreeing on a step, wait there, or are about to go on."""
        waiting = any(sign.phase is BoxPhase.RETRY for sign in signs)
        if self._request is not None:
            return waiting or now - self._asked_at < pause_request.AGREE_S
        return waiting and self._ended_at is not None and now - self._ended_at < LEAVES_S
