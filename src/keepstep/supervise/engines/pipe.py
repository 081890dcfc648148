# SPDX-License-Identifier: Apache-2.0
"""The far side of `ssh`: this agent was started over ssh, and talks to the leader through its standard streams."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from keepstep.errors import UserError
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.connection.dial import over_pipe
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection
from keepstep.supervise.nodes.node_settings import Station


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of this node. Raises :class:`UserError`."""
    least, most = wanted.least_and_most()
    if wanted.node_rank is None or wanted.meet is None:
        raise UserError("--on pipe works only where `keepstep run --hosts` starts it", hint="use --hosts A,B,C")
    read, write = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # whatever prints to standard output must not get into the conversation
    connections = iter([over_pipe(read, write, "the launching host")])

    def call() -> Connection:
        try:
            return next(connections)
        except StopIteration:
            raise CannotConnect("the ssh connection that started this agent is gone") from None

    return Station(
        run=wanted.meet,
        secret=None,
        node=wanted.node_rank,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=most,
        call=call,
        address=_own_address(env),
        per_node=wanted.per_node,
        roles=wanted.roles,
        give_up_s=0.0,
    )


def _own_address(env: Mapping[str, str]) -> str | None:
    """The address of this host that ssh was reached at: the other hosts of the same network reach it there, too."""
    words = env.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else None
