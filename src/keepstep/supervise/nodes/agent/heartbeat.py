# SPDX-License-Identifier: Apache-2.0
"""An agent's contact with the leader: a thread of its own, so beats go on whatever the agent is busy with."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from keepstep.base.lazy_dataclass import dataclass
from keepstep.supervise.nodes.agent.lease import Lease
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection, ConnectionLost, Stranger
from keepstep.supervise.nodes.messages import NEVER, Heard, Hello, Message, Refused, Start, State, Welcome
from keepstep.supervise.start.priority import promptly

AGAIN_S = 0.5
"""Between two tries to reach the leader."""
OVERSLEPT_S = 0.5
"""A wait that takes so much longer than it should: the host is too crowded to run this thread."""
BULK = 1 << 20
"""Evidence waits while so many bytes are on their way: beats must not queue behind it."""
MOST_PER_CORE = 4.0
"""Threads that want to run, over the last minute. Trainings that load their data themselves have one or two."""
CROWD_S = 2.0
"""Between two looks at the host."""


def now() -> float:
    """A clock that nobody can set and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What the next beat says."""

    state: State = State.IDLE
    steps: int = 0
    quiet_s: float | None = None


class Crowd:
    """Whether this host has far more to do than it can: what must come in time comes late then. To be asked often."""

    def __init__(self) -> None:
        self._looked = 0.0
        self._crowded = False

    def is_here(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= CROWD_S:
            self._looked, self._crowded = now, _load() > MOST_PER_CORE * (os.cpu_count() or 1)
        return self._crowded


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


class LeaderContact:
    """``inbox`` has what the leader says, but for the answers to beats. ``handle`` can be read while it has any."""

    def __init__(
        self,
        call: Callable[[], Connection],
        hello: Callable[[int, State], Hello],
        hold: Callable[[float | None], None],
        *,
        anew: bool = True,
    ) -> None:
        """``call`` reaches the leader; ``hold`` tells the reaper how long the ranks may run from now on.

        ``anew``: a connection that has become deaf is made anew, which is quicker than to wait for it to recover.
        """
        self.vitals = Vitals()
        self.inbox: deque[Message] = deque()
        self.handle = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.trouble: str | None = None
        """Why the leader cannot be reached, while that is so."""
        self.alone_since: float | None = now()
        self._call = call
        self._hello = hello
        self._hold = hold
        self._anew = anew
        self._lease = Lease(now())
        self._crowd = Crowd()
        self._lapsed = False
        """It ended while ranks ran, whatever was heard since: the reaper has ended them."""
        self._lock = threading.Lock()
        """For the lease and the connection: the agent asks and sends, too."""
        self._connection: Connection | None = None
        self._accepted = NEVER
        """The attempt whose start was accepted last. From then on it counts as one that runs."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keepstep-contact", daemon=True)
        self._thread.start()

    # --- for the agent

    def messages(self) -> list[Message]:
        """What has come since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.handle)
        found = []
        while self.inbox:
            found.append(self.inbox.popleft())
        return found

    def send(self, message: Message) -> bool:
        """False where it cannot be sent now; after a reconnect the agent says again what matters."""
        with self._lock:
            connection = self._connection
        if connection is None:
            return False
        try:
            connection.send(message)
        except ConnectionLost:
            return False
        return True

    def send_in_turn(self, message: Message, until: float) -> bool:
        """The same for evidence, which waits for its turn."""
        while (connection := self._connection) is not None and connection.queued > BULK:
            if now() > until:
                return False
            time.sleep(0.01)
        return self.send(message)

    @property
    def is_over(self) -> bool:
        """Whether the ranks may no longer run."""
        with self._lock:
            return self._lapsed or self._lease.is_over(now())

    def may_start(self, start: Start) -> bool:
        """Whether the ranks of this start, which was delivered, are to be started now. Else nothing of it runs here.

        It was accepted or refused when it arrived (:meth:`_take_start`), and may have become too late since.
        """
        with self._lock:
            if start.attempt != self._accepted:
                return False
            may = not (self._lapsed or self._lease.is_over(now()))
            if not may:
                self._accepted = NEVER
                self.vitals = Vitals()
            return may

    @property
    def attempt(self) -> int:
        """The newest that this node was asked to start."""
        with self._lock:
            return self._lease.attempt

    def close(self) -> None:
        self._over.set()
        self._thread.join(timeout=2.0)
        if self._connection is not None:
            self._connection.close()
        os.close(self.handle)

    # --- the thread

    def _run(self) -> None:
        promptly()
        while not self._over.is_set():
            try:
                if self._connection is None:
                    self._connect()
                self._beat()
                self._listen()
            except ConnectionLost as lost:
                self._drop(str(lost))
            except Stranger as stranger:
                self._deliver(Refused(why=str(stranger)))
            except CannotConnect as error:
                self._drop(str(error))
                self._over.wait(AGAIN_S)

    def _connect(self) -> None:
        began = now()
        connection = self._call()
        with self._lock:
            self._lease.connected(now(), now() - began)
            connection.send(self._hello(self._lease.attempt, self.vitals.state))
            self._connection = connection
        self.trouble, self.alone_since = None, None

    def _drop(self, why: str) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        self.trouble = why
        self.alone_since = self.alone_since if self.alone_since is not None else now()
        if connection is not None:
            connection.close()

    def _beat(self) -> None:
        with self._lock:
            vitals = self.vitals
            self._lease.crowded = self._crowd.is_here()
            beat = self._lease.beat(now(), state=vitals.state, steps=vitals.steps, quiet_s=vitals.quiet_s)
        if beat is not None and self._connection is not None:
            self._connection.send(beat)

    def _listen(self) -> None:
        assert self._connection is not None
        wait_s, began = self._wait_s(), now()
        message = self._connection.receive(wait_s)
        if message is None:
            if now() - began > wait_s + OVERSLEPT_S:
                self._lease.overslept(now())
            is_deaf = self._anew and self._lease.is_deaf(now())
            if is_deaf and self._lease.is_deaf(now(), carries=not self._connection.stuck):
                raise ConnectionLost("the leader does not answer")
            return
        if isinstance(message, Heard):
            with self._lock:
                self._lapsed |= self.vitals.state is not State.IDLE and self._lease.is_over(now())
                self._lease.heard(message, now())
                left = self._lease.left_s(now())
            self._hold(None if self.vitals.state is State.IDLE else left)
            return
        if isinstance(message, Refused) and message.again:
            raise CannotConnect(message.why)
        if isinstance(message, Start) and not self._take_start(message):
            return
        if isinstance(message, Welcome):
            with self._lock:
                self._lease.welcomed(message)
        self._deliver(message)

    def _take_start(self, start: Start) -> bool:
        """Accept or refuse it, in the order in which the leader speaks: False: it is one that was accepted before.

        If the lease is over now, an answer that comes next must not make an old start good: the leader may not wait for
        this node any more. And what the next hello says about this attempt must be true, so an accepted one counts as
        running at once, however long the agent takes to get to it.
        """
        with self._lock:
            if start.attempt == self._accepted:
                return False
            idle = self.vitals.state is State.IDLE
            if self._lease.may_start(start, now()) and idle:
                self._accepted, self._lapsed = start.attempt, False
                self.vitals = Vitals(state=State.RUNS)
                self._hold(self._lease.left_s(now()))  # before the first rank lives
            return True

    def _wait_s(self) -> float:
        with self._lock:
            return self._lease.due_s(now())

    def _deliver(self, message: Message) -> None:
        self.inbox.append(message)
        os.eventfd_write(self.handle, 1)
        if isinstance(message, Refused):
            self._over.set()
