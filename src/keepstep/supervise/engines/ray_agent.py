# SPDX-License-Identifier: Apache-2.0
"""The far side of `ray`: a Ray actor started this agent, and says on standard input where the leader is."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from typing import Any

from keepstep.errors import UserError
from keepstep.supervise.engines.meet import CONNECT_S
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.node_settings import Station

MOST_BYTES = 10_000
GIVE_UP_S = 10.0
"""An agent that has heard no leader for this long, and has nothing left to run, ends. Ray starts another if needed."""


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of this node. Raises :class:`UserError`."""
    least, most = wanted.least_and_most()
    read = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # the ranks must not read what follows
    os.close(null)
    brief = read_brief(read)
    if brief is None or wanted.node_rank is None:
        raise UserError("--on ray_agent is what `keepstep run --on ray` starts on each node", hint="use --on ray")
    threading.Thread(target=_end_with, args=(read,), daemon=True, name="keepstep-actor").start()
    secret, host, port = Secret(brief["secret"]), brief["host"], brief["port"]

    def call() -> Connection:
        return connect(secret, host, port, CONNECT_S)

    return Station(
        run=brief["run"],
        secret=secret,
        node=wanted.node_rank,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=most,
        call=call,
        address=brief["address"],
        per_node=wanted.per_node,
        roles=wanted.roles,
        give_up_s=GIVE_UP_S,
    )


def read_brief(handle: int) -> dict[str, Any] | None:
    """The line that the actor writes first; None if it is no such line."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_BYTES:
        piece = os.read(handle, 1)
        if not piece:
            return None
        line += piece
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("port"), int):
        return None
    texts = ("run", "secret", "host", "address")
    return found if all(isinstance(found.get(name), str) for name in texts) else None


def _end_with(handle: int) -> None:
    """The actor holds the other end. If Ray has ended it, this node is no longer ours: the reaper ends the ranks."""
    while os.read(handle, 1000):
        pass
    os._exit(1)
