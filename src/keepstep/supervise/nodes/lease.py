# SPDX-License-Identifier: Apache-2.0
"""Until when this node's ranks may run: the agent's half of what keeps two attempts from ever running at once.

The leader answers every beat. An answer gives the node a lease that begins when that beat was *sent*, so it always ends
before the leader, which counts from when the beat *arrived*, takes it for over. An agent without a lease starts nothing
and kills the ranks it has. :mod:`keepstep.supervise.nodes.membership` is the leader's half.

Pure: ``now`` is always passed in. It must come from a clock that no one can set and that goes on while the machine
sleeps (``CLOCK_BOOTTIME`` on Linux); clocks of different nodes are never compared.
"""

from __future__ import annotations

from keepstep.supervise.nodes.messages import NEVER, Beat, Heard, Start, State, Welcome

BEAT_S = 0.5
SILENT_S = 2.0
"""A node that was not heard for so long is silent. It is named within a second from then on."""
LEASE_S = 8.0
"""Longer than a cut of 5 s, with time to connect again. A leader may give longer ones (:class:`Welcome`)."""
DEAF_S = 5.0
"""For so long a connection may bring no answer although it carries beats: the leader's machine lives, but is busy."""
KILL_S = 3.0
"""An agent, or its reaper, has killed all ranks this long after its lease ended."""
CONNECT_S = 1.0
"""A connection that takes longer to be made is given up for another try."""


class Lease:
    """One per agent process. It belongs to the node, not to a connection.

    The agent gives it only what arrives on its newest connection: what an older one still delivers may come from a
    leader that is none any more.
    """

    def __init__(self, now: float) -> None:
        self.attempt = NEVER
        """The newest attempt that this process was ever asked to start, started or not: what it names to a leader.

        Together with :attr:`State.IDLE` it says that this attempt is over here for good, so it must not be an attempt
        that may still be started, and not one that only an earlier process on this node took part in.
        """
        self._fence = NEVER
        self._lease_s = LEASE_S
        self._until: float | None = None
        self._due = now
        self._alive = now
        self._number = 0
        self._sent: dict[int, float] = {}

    def connected(self, now: float) -> None:
        """There is a new connection. The next beat is due at once; the lease ends when it would have ended."""
        self._due = self._alive = now

    def welcomed(self, welcome: Welcome) -> None:
        """The leader knows of this attempt already, so no start of it, or of an earlier one, is meant any more."""
        self._fence = max(self._fence, welcome.attempt)
        self._lease_s = welcome.lease_s or LEASE_S

    def due_s(self, now: float) -> float:
        """How long to wait for the next beat."""
        return max(self._due - now, 0.0)

    def beat(self, now: float, *, state: State, steps: int = 0, quiet_s: float | None = None) -> Beat | None:
        """What to send now; None: nothing is due.

        ``state`` must be true at ``now``: :attr:`State.IDLE` only when no process of any attempt of this agent lives.
        """
        if now < self._due:
            return None
        self._due = max(self._due + BEAT_S, now + BEAT_S / 2)
        self._number += 1
        self._sent[self._number] = now
        while self._sent and now - next(iter(self._sent.values())) >= self._lease_s:
            del self._sent[next(iter(self._sent))]
        return Beat(number=self._number, attempt=self.attempt, state=state, steps=steps, quiet_s=quiet_s)

    def heard(self, heard: Heard, now: float) -> None:
        """The leader has heard a beat: the lease lasts for so long after it was sent."""
        sent = self._sent.get(heard.number)
        if sent is None or sent + self._lease_s <= now:
            return
        until = sent + self._lease_s
        self._until = until if self._until is None else max(self._until, until)
        self._alive = now
        for number in [number for number in self._sent if number <= heard.number]:
            del self._sent[number]

    def overslept(self, now: float) -> None:
        """This process was not run for a while: what the leader said meanwhile has yet to be read."""
        self._alive = now

    def is_deaf(self, now: float, *, carries: bool = False) -> bool:
        """Nothing was heard on this connection for long. Make another: one of TCP may take minutes to recover.

        ``carries``: all that was sent has reached the leader's machine. Then the leader has too much to do, and more
        connections would make that worse.
        """
        return now - self._alive > (DEAF_S if carries else SILENT_S)

    @property
    def until(self) -> float | None:
        """When it ends, for the reaper, which holds the same lease; None: there was none yet."""
        return self._until

    def left_s(self, now: float) -> float:
        return 0.0 if self._until is None else max(self._until - now, 0.0)

    def is_over(self, now: float) -> bool:
        """No rank may live: end those that do, at once (SIGKILL), within :data:`KILL_S`."""
        return self.left_s(now) <= 0.0

    def may_start(self, start: Start, now: float) -> bool:
        """Whether to start this attempt. Asked once: whatever the answer, the same attempt cannot start later."""
        newer = start.attempt > max(self.attempt, self._fence)
        self.attempt = max(self.attempt, start.attempt)
        return newer and not self.is_over(now)
