# SPDX-License-Identifier: Apache-2.0
"""``keepstep run`` on several nodes: this process leads, or serves the one that does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial

from keepstep.errors import UserError
from keepstep.supervise.asked import Asked
from keepstep.supervise.interrupts import Interrupts
from keepstep.supervise.nodes.agent import Agent
from keepstep.supervise.nodes.agent_terminal import AgentTerminal
from keepstep.supervise.nodes.crew import Nodes, Station, hello_of, part_of
from keepstep.supervise.nodes.link import CannotListen
from keepstep.supervise.run import Supervisor


def run_on_nodes(station: Station, asked: Asked, env: Mapping[str, str]) -> int:
    """All of this node's part. Returns the run's status, on every node."""
    if station.call is None:
        try:
            return Supervisor(asked, env, make_crew=partial(Nodes, station)).run()
        except CannotListen as error:
            raise UserError(
                str(error), hint="another run may use this port: give each run a port of its own with --meet HOST:PORT"
            ) from error
    return serve(station, asked, env)


def serve(station: Station, asked: Asked, env: Mapping[str, str], *, out: bool = True) -> int:
    """As an agent. ``out``: what ranks print goes to standard output (else to standard error)."""
    assert station.call is not None
    terminal = AgentTerminal(quiet=asked.quiet, out=None if out else sys.stderr)
    interrupts = Interrupts(terminal.aloud, asked.grace_s)
    try:
        with interrupts.listening():
            hello = hello_of(station, asked.job)
            return Agent(part_of(station, asked, env), station.call, hello, terminal, interrupts).run()
    finally:
        terminal.close()
