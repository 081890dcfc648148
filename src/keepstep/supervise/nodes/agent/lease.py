# SPDX-License-Identifier: Apache-2.0
"""Until when this node's ranks may run: the agent's half of what keeps two attempts from ever running at once.

The leader answers every beat. An answer gives the node a lease that begins when that beat was *sent*, so it always ends
before the leader, which counts from when the beat *arrived*, takes it for over. An agent without a lease starts nothing
and kills the ranks it has. :mod:`keepstep.supervise.nodes.lead.membership` is the leader's half.

On a crowded host, answers come late although nothing is broken. An agent that sees this, or expects it, asks for longer
leases; the leader decides, says with each answer how long that lease is, and waits as much longer itself.

Pure: ``now`` is always passed in. It must come from a clock that no one can set and that goes on while the machine
sleeps (``CLOCK_BOOTTIME`` on Linux); clocks of different nodes are never compared.
"""

from __future__ import annotations

from keepstep.supervise.nodes.messages import NEVER, Beat, Heard, Start, State, Welcome

BEAT_S = 0.5
SILENT_S = 2.0
"""A node that has not been heard for this long is silent. It is named within a second after that."""
LEASE_S = 8.0
"""Longer than a cut of 5 s, with time to connect again. A leader may give longer ones (:class:`Welcome`)."""
LONGEST_S = 24.0
"""The longest that a leader gives to an agent that asks for it, where no other leader has to wait for its end."""
TIMES_LATE = 4
"""A lease is to be so many times as long as answers were late."""
LATELY_S = 60.0
"""Answers are remembered for at least this long, and at most twice as long."""
DEAF_S = 5.0
"""How long a connection that carries beats may bring no answer: the leader's machine lives, but is busy."""
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
        self._given_s = LEASE_S
        self._until: float | None = None
        self._due = now
        self._alive = now
        self._number = 0
        self._sent: dict[int, tuple[float, float]] = {}
        """When each beat was sent that was not answered yet, and when it was due."""
        self._late = [0.0, 0.0]
        """How late answers came at most, after their beats were due: now, and in the time before."""
        self._late_since = now
        self.crowded = False
        """The host has far more to do than it can: answers will be late."""

    def connected(self, now: float, took_s: float = 0.0) -> None:
        """There is a new connection. The next beat is due at once; the lease ends when it would have ended.

        ``took_s``: how long it took to be made, once the other side answered at all.
        """
        self._due = self._alive = now
        self._was_late(took_s, now)

    def welcomed(self, welcome: Welcome) -> None:
        """The leader knows of this attempt already, so no start of it, or of an earlier one, is meant any more."""
        self._fence = max(self._fence, welcome.attempt)
        self._lease_s = self._given_s = welcome.lease_s or LEASE_S

    def due_s(self, now: float) -> float:
        """How long to wait for the next beat."""
        return max(self._due - now, 0.0)

    def beat(self, now: float, *, state: State, steps: int = 0, quiet_s: float | None = None) -> Beat | None:
        """What to send now; None: nothing is due.

        ``state`` must be true at ``now``: :attr:`State.IDLE` only when no process of any attempt of this agent lives.
        """
        if now < self._due:
            return None
        pause_s = BEAT_S * self._stretch()
        due, self._due = self._due, max(self._due + pause_s, now + pause_s / 2)
        self._number += 1
        self._sent[self._number] = now, due
        while self._sent and now - next(iter(self._sent.values()))[0] >= max(self._lease_s, LONGEST_S):
            del self._sent[next(iter(self._sent))]
        return Beat(
            number=self._number,
            attempt=self.attempt,
            state=state,
            steps=steps,
            quiet_s=quiet_s,
            wants_s=self._wants_s(),
        )

    def _wants_s(self) -> float | None:
        needed = LONGEST_S if self.crowded else TIMES_LATE * max(self._late)
        return min(round(needed, 1), LONGEST_S) if needed > self._lease_s else None

    def _was_late(self, late_s: float, now: float) -> None:
        if now - self._late_since > LATELY_S:
            self._late, self._late_since = [0.0, self._late[0]], now
        self._late[0] = max(self._late[0], late_s)

    def heard(self, heard: Heard, now: float) -> None:
        """The leader has heard a beat: the lease lasts this long from when it was sent."""
        sent, due = self._sent.get(heard.number, (None, now))
        length = heard.lease_s or self._lease_s
        if sent is None:
            return
        self._was_late(now - due, now)
        if sent + length <= now:
            return
        self._until = sent + length if self._until is None else max(self._until, sent + length)
        self._given_s = length
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
        return now - self._alive > (DEAF_S if carries else SILENT_S) * self._stretch()

    def _stretch(self) -> float:
        """Where everything is late, more beats would make it worse: they become as rare as leases become long."""
        return max(self._given_s / self._lease_s, 1.0)

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
