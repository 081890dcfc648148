# SPDX-License-Identifier: Apache-2.0
"""No engine: the user starts one agent per node, and says where node 0 listens. Node 0 leads.

Nobody else can: there is no third party that could tell a leader that is lost from one that is only cut off from some
nodes. But a node 0 that is started again, there or where its name leads to by then, leads the same run on.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from keepstep.base.wording import duration
from keepstep.cluster.address import read_address
from keepstep.errors import UserError
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.agent.lease import LONGEST_S
from keepstep.supervise.nodes.connection import secret as secrets
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.node_settings import FIRST_S, GIVE_UP_S, Station

CONNECT_S, HANDSHAKE_S = 3.0, 12.0
HINT = (
    "run `openssl rand -hex 32` once, and set KEEPSTEP_SECRET to it on all nodes, "
    "or put it into a file with mode 0600 and set KEEPSTEP_SECRET_FILE"
)


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of this node. Raises :class:`UserError`."""
    least, most = wanted.least_and_most()
    spares = wanted.spare_nodes or 0
    if wanted.meet is None:
        raise UserError("where do the nodes meet?", hint="give --meet HOST:PORT, the address of node 0")
    address = read_address(wanted.meet)
    if address.host is None or address.port is None:
        raise UserError(f"--meet {wanted.meet[:100]} is not HOST:PORT", hint="for example --meet node-0:23400")
    host, port = address.host, address.port
    if wanted.node_rank is None:
        raise UserError("which node is this?", hint="give --node-rank I, from 0 to one less than the number of nodes")
    if not 0 <= wanted.node_rank < most + spares:
        spare = f" plus --spare-nodes {spares}" if spares else ""
        raise UserError(
            f"--node-rank {wanted.node_rank} is not below --nodes {wanted.nodes}{spare}",
            hint="the first one is 0; with more agents than nodes, give --spare-nodes K on all of them",
        )
    found = secrets.find(env)
    if found is None:
        raise UserError(
            "the nodes of a run prove to each other that they belong together, and there is no secret", hint=HINT
        )
    leads = wanted.node_rank == 0
    give_up_s = max(GIVE_UP_S, wanted.wait_s or 0.0)

    def call() -> Connection:
        return connect(found, host, port, CONNECT_S, handshake_s=HANDSHAKE_S)

    return Station(
        run=f"{host}:{port}",
        secret=found,
        node=wanted.node_rank,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=most + spares,
        listens=(None, port) if leads else None,
        call=None if leads else call,
        address=host if leads else None,
        per_node=wanted.per_node,
        roles=wanted.roles,
        first_s=wanted.wait_s if wanted.wait_s is not None else FIRST_S,
        more_s=wanted.more_s,
        longest_s=LONGEST_S,
        give_up_s=give_up_s,
        no_successor="with --meet no other node takes over from node 0: start the same command with --node-rank 0 "
        f"again where {host} leads to, within {duration(give_up_s)}, and the run goes on; after that, this agent ends",
        first=None,  # it may have been started again, while agents of the earlier one have leases
    )
