# SPDX-License-Identifier: Apache-2.0
"""Kubernetes: each pod of an indexed Job, a JobSet or a Kubeflow job is a node, and pod 0 leads.

No access to the API is needed. The pod's own name says what pod 0 is called, the Job starts a pod again that is gone,
and a new pod 0 leads again: agents tell it which attempts there were. The run's status tells the Job what to do next.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Mapping

from keepstep.base.whole_numbers import whole
from keepstep.base.wording import count
from keepstep.cluster.address import is_loopback, read_address
from keepstep.cluster.kubernetes import node_of, own_pod
from keepstep.errors import UserError
from keepstep.supervise.decide.final_status import Statuses
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.connection import secret as secrets
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.node_settings import FIRST_S, Station

PORT = 23400
"""Where pod 0 listens, unless --meet says otherwise. Every pod has an address of its own, so runs do not collide."""
PREEMPTED, REPEATS = 75, 78
"""EX_TEMPFAIL and EX_CONFIG of sysexits.h: what the Job's podFailurePolicy ignores, and what makes it fail the Job."""
CONNECT_S = 3.0
HINT_SECRET = (
    "make one with `kubectl create secret generic keepstep --from-literal=secret=$(openssl rand -hex 32)`, "
    "and give it to the pods as KEEPSTEP_SECRET (secretKeyRef), or as a volume and its file as KEEPSTEP_SECRET_FILE"
)
HINT_NAME = (
    "give the pods a headless service and its name as subdomain (a JobSet does both), or --meet HOST:PORT of pod 0"
)


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of this pod. Raises :class:`UserError`."""
    node = wanted.node_rank if wanted.node_rank is not None else node_of(env)
    if node is None:
        raise UserError(
            "this pod has no index (JOB_COMPLETION_INDEX, PET_NODE_RANK)",
            hint="use a Job with completionMode: Indexed, or give --node-rank I",
        )
    least, most = wanted.least_and_most(_count(env))
    spares = wanted.spare_nodes or 0
    if not 0 <= node < most + spares:
        also = f" and {count(spares, 'spare one')}" if spares else ""
        raise UserError(
            f"this is pod {node}, but there are only {most} nodes{also} (numbered from 0)",
            hint="the Job's completions and parallelism must be what --nodes and --spare-nodes name together",
        )
    found = secrets.find(env)
    if found is None:
        raise UserError(
            "the pods of a run prove to each other that they belong together, and there is no secret", hint=HINT_SECRET
        )
    host, port = _meeting(wanted, env, leads=node == 0)
    patience_s = wanted.wait_s if wanted.wait_s is not None else FIRST_S

    def call() -> Connection:
        return connect(found, host, port, CONNECT_S)

    return Station(
        run=_short(host),
        secret=found,
        node=node,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=most + spares,
        listens=(None, port) if node == 0 else None,
        call=None if node == 0 else call,
        address=_own_address(env) or (host if node == 0 else None),
        per_node=wanted.per_node,
        roles=wanted.roles,
        first_s=patience_s,
        more_s=wanted.more_s,
        again_s=patience_s,
        give_up_s=patience_s,
        first=False,  # this pod 0 may not be the first, and ranks of an earlier attempt may still run elsewhere
        statuses=Statuses(preempted=PREEMPTED, repeats=REPEATS),
    )


def _count(env: Mapping[str, str]) -> int | None:
    """How many pods there are, where Kubeflow says so (an elastic job names a range, which is the user's to choose)."""
    return whole(env.get("PET_NNODES", "")) or None


def _meeting(wanted: Wanted, env: Mapping[str, str], *, leads: bool) -> tuple[str, int]:
    """Where pod 0 is found, by a name that stays when it is started again. Raises :class:`UserError`."""
    if wanted.meet is not None:
        address = read_address(wanted.meet)
        if address.host is None:
            raise UserError(f"--meet {wanted.meet[:100]} is not HOST:PORT", hint=f"for example --meet train-0:{PORT}")
        return address.host, address.port or PORT
    name = socket.gethostname()
    kubeflow = env.get("PET_MASTER_ADDR") or env.get("MASTER_ADDR") or ""
    if kubeflow and not is_loopback(kubeflow) and read_address(kubeflow).host:
        return kubeflow, PORT
    if leads:
        return name, PORT
    pod = own_pod({**env, "POD_NAME": name})
    if pod is None or name != f"{pod.group}-{pod.index}":
        raise UserError(f"this pod is called {name}, which does not say how to find pod 0", hint=HINT_NAME)
    domain = _domain(env, name)
    return f"{pod.group}-0{domain}", PORT


def _domain(env: Mapping[str, str], name: str) -> str:
    """``.SERVICE.NAMESPACE.svc...``: the kubelet writes a pod's whole name into its hosts file."""
    service = env.get("SUBDOMAIN") or env.get("SERVICE_NAME") or env.get("HEADLESS_SERVICE") or ""
    if re.fullmatch(r"[\w.-]{1,200}", service):
        return f".{service}"
    whole_name = socket.getfqdn(name)
    if whole_name.startswith(f"{name}."):
        return whole_name[len(name) :]
    raise UserError(f"this pod is called {name}, without a domain in which pod 0 could be found", hint=HINT_NAME)


def _short(host: str) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host.partition(".")[0]


def _own_address(env: Mapping[str, str]) -> str | None:
    """This pod's address: what its hosts file says about its own name. None: as the leader sees it."""
    if (said := env.get("POD_IP")) and not is_loopback(said):
        return said
    with contextlib.suppress(OSError):
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            if not is_loopback(str(address[0])):
                return str(address[0])
    return None
