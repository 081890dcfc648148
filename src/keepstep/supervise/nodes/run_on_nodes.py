# SPDX-License-Identifier: Apache-2.0
"""``keepstep run`` on several nodes: this process leads, or serves the one that does, or one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from keepstep.errors import UserError
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.agent.node_agent import ELECTED, LOST_STATUS, Agent, AgentTerminal
from keepstep.supervise.nodes.connection.interface import CannotListen
from keepstep.supervise.nodes.node_settings import Station, hello_of, part_of
from keepstep.supervise.options import RunOptions
from keepstep.supervise.start.interrupts import Interrupts

if TYPE_CHECKING:
    from keepstep.supervise.nodes.lead.leadership import Inherited, Office

ASK_S = 2.0


def run_on_nodes(station: Station, asked: RunOptions, env: Mapping[str, str]) -> int:
    """All of this node's part. Returns the run's status, on every node."""
    if station.office is None:
        return lead(station, asked, env) if station.call is None else serve(station, asked, env)
    interrupts = Interrupts(_whisper, asked.grace_s, preempted=station.statuses.preempted)
    with interrupts.listening():  # for the moments between two offices
        return _in_turns(station, station.office, asked, env, interrupts)


def lead(station: Station, asked: RunOptions, env: Mapping[str, str]) -> int:
    """As the leader. Raises ``Superseded`` where another process leads from now on."""
    from keepstep.supervise.decide.decision import Settings  # not in an agent: hundreds may start on one host at once
    from keepstep.supervise.nodes.lead.leadership import take_over
    from keepstep.supervise.nodes.lead.nodes_executor import Nodes
    from keepstep.supervise.run import Supervisor

    most = asked.max_attempts if asked.max_attempts is not None else Settings().max_attempts
    past = partial(take_over, past=station.past, most=most) if station.past is not None else None
    try:
        crew = partial(Nodes, station)
        status = Supervisor(asked, env, make_crew=crew, take_over=past, statuses=station.statuses).run()
    except CannotListen as error:
        raise UserError(
            str(error), hint="another run may use this port: give each run a port of its own with --meet HOST:PORT"
        ) from error
    if station.at_end is not None:
        station.at_end(status)
    return status


def serve(
    station: Station,
    asked: RunOptions,
    env: Mapping[str, str],
    *,
    out: bool = True,
    and_then: Callable[[Agent], None] | None = None,
) -> int:
    """As an agent. ``out``: what ranks print goes to standard output (else to standard error)."""
    assert station.call is not None
    terminal = AgentTerminal(quiet=asked.quiet, out=None if out else sys.stderr)
    interrupts = Interrupts(terminal.aloud, asked.grace_s, preempted=station.statuses.preempted)
    try:
        with interrupts.listening():
            hello = hello_of(station, asked.job)
            agent = Agent(part_of(station, asked, env), station.call, hello, terminal, interrupts)
            status = agent.run()
            if and_then is not None:
                and_then(agent)
            return status
    finally:
        terminal.close()


# --- where the office may change hands


def _in_turns(
    station: Station, office: Office, asked: RunOptions, env: Mapping[str, str], interrupts: Interrupts
) -> int:
    """Lead and serve, as the engine says."""
    from keepstep.supervise.decide.policy import NOT_RESTARTED
    from keepstep.supervise.executor import Superseded

    while interrupts.signal is None:
        if station.call is None:
            try:
                return lead(station, asked, env)
            except Superseded as error:
                leads = _ask(office, interrupts)
                if leads is None:
                    return interrupts.status if interrupts.signal is not None else LOST_STATUS
                station = replace(
                    station, first=False, past=None, newest=error.attempt, call=None if leads else office.call
                )
            continue
        served: list[Agent] = []
        began = time.time()
        status = serve(station, asked, env, and_then=served.append)
        if status != ELECTED:
            return status
        if asked.job.as_given and asked.max_attempts is None:
            _whisper(f"{office.says_about(office.followed)}; {NOT_RESTARTED}")
            return LOST_STATUS
        office.elected = False
        newest = max(station.newest, served[0].newest)
        past = _left(served[0], office, station, began)
        station = replace(station, first=False, past=past, newest=newest, call=None, address=office.address())
    return interrupts.status


def _ask(office: Office, interrupts: Interrupts) -> bool | None:
    """Whether this node leads after all; None: it does not belong to the run any more, or nobody says."""
    began = now()
    while interrupts.signal is None and now() - began < office.give_up_s:
        answer = office.leads()
        if answer is not None or office.out:
            return None if office.out else answer
        time.sleep(ASK_S)
    return None


def _left(agent: Agent, office: Office, station: Station, began: float) -> Inherited | None:
    """What the old leader has left, if it had started anything."""
    from keepstep.model.facts.nodes import NodeLost
    from keepstep.supervise.nodes.lead.leadership import Inherited

    host = office.followed
    if not host:
        return None
    why = "nobody listens there any more" if office.refused else None
    ranks = tuple(seat.rank for seat in agent.layout.seats if seat.machine == host)
    node = next((seat.node for seat in agent.layout.seats if seat.machine == host), 0)
    return Inherited(
        lost=NodeLost(host=host, node=node, ranks=ranks, closed=office.refused, why=why),
        began=began,
        why=f"{office.says_about(host)}; {station.host} leads from now on",
    )


def _whisper(text: str) -> None:
    print(f"keepstep: {text}", file=sys.stderr, flush=True)
