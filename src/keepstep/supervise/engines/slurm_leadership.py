# SPDX-License-Identifier: Apache-2.0
"""Who leads is Slurm's word: the lowest node of the step that its controller still counts.

With ``--no-kill``, the controller takes a node that is down out of the job. An agent that cannot reach its leader asks
who is the lowest now, and leads if it is on that node. A leader asks, too, and is none any more when the answer is
another node, or when no answer comes for a term.

A leader that was killed on a node that is up is passed over, once a look at that node has shown that no process of its
task is left. A task of a step is never started again, so who was passed over cannot lead later, and any two agents
that pass over the same ones agree on who is next. A leader that ended by itself is not replaced: the run is over.

Where nodes of the step share a machine (several ``slurmd``), nobody takes over: there an address leads to whoever
listens first, so what is seen at one node says nothing about it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from keepstep.base.wording import listing
from keepstep.cluster.address import is_loopback
from keepstep.cluster.slurm import expand_hosts
from keepstep.sources.host.this_host import resolve
from keepstep.sources.schedulers import slurm_controller
from keepstep.sources.schedulers.slurm_controller import JobNow
from keepstep.sources.schedulers.slurm_nodes import addresses_of, on_one_host
from keepstep.sources.schedulers.slurm_task import TaskState
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.agent.lease import SILENT_S
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection
from keepstep.supervise.nodes.connection.secret import Secret

TERM_S = 12.0
"""How long Slurm's word is good. A new leader waits this long before it listens to anyone."""
CONNECT_S = 3.0
FIRST_S = 20.0
"""At the start: the leader may need longer than its agents."""
ASK_S = 2.0
SELDOM_S = 10.0
HEIRS = 4
NOBODY_S = 60.0
"""How long to look for a leader where a host answers that nobody leads there."""
SILENT_HOST_S = 900.0
"""The same where no host answers: by default, Slurm takes up to this long to notice that a node is down."""
OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PENDING", "PREEMPTED", "REQUEUED", "REVOKED", "TIMEOUT"),
)
"""The states of a job that nobody leads any more. Its processes may have a grace period."""


@dataclass
class SlurmOffice:
    """What one agent knows about who leads."""

    job: str
    restarts: int
    hosts: tuple[str, ...]
    """Of the step, in Slurm's order."""
    host: str
    eldest: bool
    """Whether this is the node's first task."""
    secret: Secret
    ports: tuple[int, ...]
    ask: Callable[[str], JobNow | str] = slurm_controller.job_now
    look: Callable[[str], TaskState] = lambda host: TaskState.UNKNOWN
    """What became of this step's task on a host."""
    sharing: Callable[[Iterable[str]], tuple[str, ...] | None] = on_one_host
    """Which of the hosts are one machine."""
    begin: Callable[[], None] = lambda: None
    """Called before this agent leads or follows: lets the others see later whether it was killed."""
    term_s: float = TERM_S
    elected: bool = False
    """Slurm says that this node leads."""
    out: bool = False
    """Slurm does not count this node any more."""
    words: str = ""
    """What Slurm said last."""
    counted: tuple[str, ...] = ()
    followed: str = ""
    _leader: str = ""
    _alone_since: float | None = None
    _asked: float = 0.0
    _begun: bool = False
    _shared: tuple[str, ...] | None = None
    """The nodes that are not machines of their own, once Slurm has said so."""
    _killed: set[str] = field(default_factory=set)
    """Hosts that Slurm counts, but whose agent was killed."""
    refused: bool = False
    """The leader's host lives, but nobody listens there."""
    _addresses: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.counted, self._leader = self.hosts, self.hosts[0]

    @property
    def give_up_s(self) -> float:
        return NOBODY_S if self.refused else SILENT_HOST_S

    # --- for an agent

    def call(self) -> Connection:
        """A connection to whoever leads now."""
        if not self._begun:
            self._begun = True
            self.begin()
        try:
            connection = self._dial()
        except CannotConnect as error:
            self._wonder()
            raise CannotConnect(f"{error}{self.words}") from None
        self._alone_since, self.words, self.followed = None, "", self._leader
        return connection

    def _dial(self) -> Connection:
        """To the leader; where nobody leads there, to those who may lead next."""
        try:
            connection, self.refused = self._dial_host(self._leader), False
            return connection
        except _Refused as error:
            self.refused = True
            for host in self.counted[: HEIRS + 1]:
                if host not in (self.host, self._leader):
                    with contextlib.suppress(CannotConnect):
                        connection, self._leader = self._dial_host(host), host
                        return connection
            raise CannotConnect(str(error)) from None
        except CannotConnect:
            self.refused = False
            raise

    def _dial_host(self, host: str) -> Connection:
        why = ""
        for port in self.ports:
            began = now()
            try:
                return connect(self.secret, self._address(host), port, CONNECT_S)
            except CannotConnect as error:
                why = why or str(error)
                if now() - began >= CONNECT_S / 2:
                    raise CannotConnect(why) from None  # the host does not answer at all
        raise _Refused(why)

    def _address(self, host: str) -> str:
        """Names of nodes are Slurm's own: where one does not resolve, Slurm has the address."""
        if host not in self._addresses:
            addresses, _ = resolve([host])[host]
            self._addresses[host] = host if addresses else addresses_of([host]).get(host, host)
        return self._addresses[host]

    def _wonder(self) -> None:
        """Nobody answers where the leader should be: ask Slurm, but not at once and not all the time."""
        at = now()
        self._alone_since = self._alone_since if self._alone_since is not None else at
        patience = SILENT_S if self.followed else FIRST_S
        if at - self._alone_since < patience or at - self._asked < self._pause_s:
            return
        self._asked = at
        if not self._may_be_replaced():
            return
        self.elected = self.leads() is True
        if not self.elected and self.refused and self.host in self.counted[: HEIRS + 1]:
            self._pass_over_the_killed()

    def _may_be_replaced(self) -> bool:
        """Whether each node is a machine of its own, as Slurm says."""
        if self._shared is None:
            self._shared = self.sharing(self.hosts)
        if self._shared is None:
            self.words = "; Slurm does not say where its nodes are"
        elif self._shared:
            self.out, self.words = True, f"; {nobody_takes_over(self._shared)}"
        return self._shared == ()

    def _pass_over_the_killed(self) -> None:
        """Nobody leads on hosts that Slurm counts and that answer: see what became of the agents there."""
        for host in self.counted[: self.counted.index(self.host)]:
            task = self.look(host)
            if task is TaskState.KILLED:
                self._killed.add(host)
                continue
            if task is TaskState.ENDED:
                self.out, self.words = True, f"; the agent on {host} has ended, and the run with it"
            elif task is TaskState.LIVES:
                self.words = f"; Slurm still counts on {host}, where a task of this step lives"
            return
        self.elected = self.leads() is True

    @property
    def _pause_s(self) -> float:
        """Between two questions: the next ones in line are quick, so thousands of others need not press Slurm."""
        order = self.counted.index(self.host) if self.host in self.counted else 0
        return ASK_S if order < HEIRS else SELDOM_S

    # --- for both

    def address(self) -> str:
        """Where other nodes reach this one. Its own name may lead to loopback here, and need not resolve at all."""
        addresses, _ = resolve([self.host])[self.host]
        if addresses and not any(is_loopback(each) for each in addresses):
            return self.host
        return addresses_of([self.host]).get(self.host, self.host)

    def leads(self) -> bool | None:
        """Whether Slurm says that this node leads; None: it says nothing."""
        with self._lock:
            said = self.ask(self.job)
            if isinstance(said, str):
                self.words = f"; Slurm does not answer ({said})"
                return None
            if said.state in OVER:
                self.out, self.words = True, f"; Slurm says that the job is {said.state}"
                return None
            nodes = set(expand_hosts(said.nodes))
            counted = [host for host in self.hosts if host in nodes and host not in self._killed]
            if said.restarts != self.restarts or not counted:
                self.out, self.words = True, f"; Slurm says that the job is {said.state}, without these nodes"
                return False
            self.counted, self._leader = tuple(counted), counted[0]
            self.out = self.host not in counted
            self.words = (
                "; Slurm has taken this node out of the job" if self.out else f"; Slurm still counts on {counted[0]}"
            )
            return self.eldest and counted[0] == self.host

    def says_about(self, host: str) -> str:
        """Slurm's state of a host, in words."""
        found = slurm_controller.node_words(host)
        if host in self._killed:
            return f"Slurm says {host} is {found or 'unknown'}, but the agent there was killed"
        return f"Slurm says {host} is {found}" if found else f"Slurm says nothing about {host}"


def nobody_takes_over(shared: Sequence[str]) -> str:
    """Why a lost leader has no successor."""
    return f"{listing(shared)} are one machine, so no other node may lead: two could do so at once"


class _Refused(CannotConnect):
    """The host answers, but nobody leads there."""
