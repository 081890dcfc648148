# SPDX-License-Identifier: Apache-2.0
"""Several nodes as one crew: the leader, its own agent if it has one, and an attempt on all of them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from keepstep import __version__
from keepstep.base.wording import duration
from keepstep.store import host_failures
from keepstep.supervise.executor import Applied, Trial
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.agent.node_agent import Agent, AgentTerminal
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import CannotListen
from keepstep.supervise.nodes.lead.joint_attempt import JointAttempt
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.leadership import Term
from keepstep.supervise.nodes.lead.membership import Membership
from keepstep.supervise.nodes.lead.nodes_preflight import FirstLook
from keepstep.supervise.nodes.lead.rendezvous import MORE_S, Gathering
from keepstep.supervise.nodes.messages import NEVER, State
from keepstep.supervise.nodes.node_settings import Station, hello_of, part_of
from keepstep.supervise.options import RunOptions
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.interrupts import Interrupts
from keepstep.supervise.start.priority import promptly
from keepstep.supervise.watch.alarms import Alarms

SETTLE_S = 0.5


def _hub(station: Station) -> Hub:
    """On the first port that is free. Raises :class:`CannotListen`."""
    host, port = station.listens or (None, None)
    for each in station.ports[:-1]:
        with contextlib.suppress(CannotListen):
            return Hub(station.secret, host, each)
    return Hub(station.secret, host, station.ports[-1] if station.ports else port)


class Nodes:
    """The crew of a leader."""

    def __init__(
        self, station: Station, asked: RunOptions, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts
    ) -> None:
        self._station, self._asked, self._env = station, asked, env
        promptly()
        hub = _hub(station)
        office = station.office
        self._hello = hello_of(station, asked.job)
        membership = Membership(
            run=station.run,
            version=__version__,
            nodes=station.nodes,
            now=now(),
            first=station.first,
            term_s=office.term_s if office is not None else None,
            lease_s=station.lease_s,
            longest_s=station.longest_s,
            own=self._hello(NEVER, State.IDLE) if station.node is not None else None,
        )
        membership.newest_attempt = station.newest
        self._leader = Leader(hub, membership, terminal.say)
        out: set[str] = set()
        self._term = Term(self._leader, office, out, terminal.say) if office is not None else None
        self._gathering = Gathering(
            leader=self._leader,
            least=station.least,
            most=station.most,
            say=terminal.say,
            status=terminal.status,
            interrupted=lambda: interrupts.signal,
            interrupt=interrupts.note,
            hurry=lambda: interrupts.again,
            first_look=FirstLook(self._leader, terminal.say, on=asked.check and station.first is not False),
            cwd=asked.job.cwd,
            roles=station.roles,
            as_given=asked.job.as_given,
            grace_s=asked.grace_s,
            alarms=Alarms(asked.settings, terminal.say, stop=lambda: interrupts.note(signal.SIGTERM)),
            first_s=station.first_s,
            again_s=station.again_s,
            more_s=station.more_s if station.more_s is not None else MORE_S,
            tend=station.tend or (list[str]),
            ended_here=station.ended_here or (lambda node: None),
            taken_out=out,
        )
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        if station.attach is not None:
            station.attach(self._gathering)
        if station.ready is not None:
            station.ready(hub)
        if station.node is not None:
            self._thread = threading.Thread(target=self._serve, args=(hub,), daemon=True, name="keepstep-agent")
            self._thread.start()
        for words in station.words() if station.words is not None else ():
            terminal.say(words)
        if station.first is False:
            self._settle(interrupts, terminal.say)

    def _settle(self, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        """Wait until nothing that an earlier leader started can run, and all nodes have said how far they were."""
        if (past := self._station.past) is not None:
            say(f"{past.lost.host}, which led the run, cannot be reached: {past.why}")
        longest = max(self._leader.blocking().values(), default=0.0)
        say(f"waiting up to {duration(longest)} until nothing that an earlier leader may have started can run")
        while interrupts.signal is None and self._leader.blocking():
            self._leader.end_others()
            self._leader.wait(SETTLE_S)

    def _serve(self, hub: Hub) -> None:
        quiet = AgentTerminal(quiet=self._asked.quiet)
        part = replace(part_of(self._station, self._asked, self._env), leads=True)
        Agent(part, hub.local, self._hello, quiet).run()

    @property
    def first_attempt(self) -> int:
        return self._leader.newest_attempt + 1

    def attempt(self, number: int, folder: Path, exchange: Path, applied: Applied, *, may_start_over: bool) -> Trial:
        """The next one, on all nodes or none. Guards meet in a folder on each node, so ``exchange`` is not used."""
        self._folder = folder
        return JointAttempt(
            number, folder, self._leader, self._gathering, applied, env=self._env, may_start_over=may_start_over
        )

    def close(self, status: int) -> None:
        self._remember()
        if self._term is not None:
            self._term.end()
        self._leader.close(status)
        if self._thread is not None:
            self._thread.join(timeout=15.0)
        if self._station.over is not None:
            self._station.over()

    def _remember(self) -> None:
        """What this run says about its hosts, for `keepstep runs --hosts` and for the next run."""
        if self._folder is None:
            return
        failures = self._gathering.failures
        own = {host: [each for each in failures if host in each.blamed] for host in self._gathering.took_part.values()}
        host_failures.remember(
            host_failures.HostRun(
                host=host,
                run=self._folder.parent.name,
                at=time.time(),
                failures=len(each),
                cause=each[-1].what if each else None,
            )
            for host, each in own.items()
        )
