# SPDX-License-Identifier: Apache-2.0
"""The config part: what the launcher's variables say, and whether this host agrees."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from keepstep.check.meeting.over_ssh import BY_HOSTS
from keepstep.check.place import Collected, Place
from keepstep.check.script import look_at_script
from keepstep.cluster import all_said
from keepstep.cluster.address import is_loopback
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.node_count import nodes_named
from keepstep.cluster.tf_config import rpc_layer
from keepstep.model.facts.cluster import (
    AgreedSetting,
    ClusterSeen,
    HostSeen,
    InterfaceWanted,
    NameLookedUp,
    NodesNamed,
    PortPrivileged,
    ProxySet,
)
from keepstep.model.facts.network import PortTaken
from keepstep.sources.host import this_host

INTERFACE_VARIABLES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
)
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
EXEMPT = ("no_grpc_proxy", "no_proxy")
AGREED = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "TF_COLLECTIVE_COMMUNICATION",
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION",
    "JAX_ENABLE_X64",
    "XLA_FLAGS",
    "TORCH_DISTRIBUTED_BACKEND",
    "ACCELERATE_MIXED_PRECISION",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_GPU_OPERATIONS",
)
"""Settings that decide how the ranks communicate, or what they compile."""
RPC_LAYER = "the rpc_layer of TF_CONFIG"
MOST_NAMES = 256


def look(place: Place) -> Collected:
    """Everything about the launcher's variables that this process can see."""
    looked = Collected()
    said = all_said(place.env)
    for each in said:
        for fault in each.faults:
            looked.add(place.saw(fault, fault.variable, fault.value or ""))
        if each.cluster and not _starts_the_starter(each.cluster, place):
            looked.add(place.saw(_seen(each.cluster, place), each.cluster.said_by, _quote(each.cluster)))
    looked.add(place.saw(_host(place), "this host"))
    if nodes := _nodes(place):
        quote = f"{nodes.variable}={place.env[nodes.variable][:100]}" if nodes.variable in place.env else ""
        looked.add(place.saw(nodes, nodes.variable, quote or f"{nodes.said_by} has {nodes.count}"))
    looked.take(_names(place, [each.cluster for each in said if each.cluster and each.cluster.said_by != "Slurm"]))
    if place.cluster:
        looked.take(_port(place, place.cluster))
        looked.take(_proxies(place, place.cluster))
    looked.take(_interfaces(place))
    for name in AGREED:
        looked.add(place.saw(AgreedSetting(name=name, value=(place.env.get(name) or "")[:200] or None), name))
    looked.add(place.saw(AgreedSetting(name=RPC_LAYER, value=rpc_layer(place.env.get("TF_CONFIG", ""))), "TF_CONFIG"))
    looked.take(look_at_script(place))
    who = ", ".join(each.cluster.said_by for each in said if each.cluster) or "no launcher's variables are set"
    looked.checked(f"launcher's variables ({who})")
    return looked


def _nodes(place: Place) -> NodesNamed | None:
    if place.cluster is not None and place.cluster.said_by == BY_HOSTS:
        return NodesNamed(said_by=BY_HOSTS, count=len(place.cluster.hosts), variable=BY_HOSTS)
    return nodes_named(place.env)


def _starts_the_starter(cluster: Cluster, place: Place) -> bool:
    """torchrun under srun or mpirun: the task is torchrun's agent, and all its ranks inherit the variables."""
    return "TORCHELASTIC_RUN_ID" in place.env and cluster.said_by != "torchrun"


def _seen(cluster: Cluster, place: Place) -> ClusterSeen:
    own = cluster.own
    addressed = cluster.said_by != "Slurm"
    members = tuple(f"{task.role}:{task.index}@{task.address or task.host or ''}" for task in cluster.tasks)
    local = place.env.get("LOCAL_WORLD_SIZE", "")
    return ClusterSeen(
        said_by=cluster.said_by,
        size=cluster.size,
        members=members if all(task.host or task.role == "evaluator" for task in cluster.tasks) and addressed else (),
        own=f"{own.role}:{own.index}" if own else None,
        own_rank=cluster.me,
        meeting=cluster.meeting,
        hosts=cluster.hosts if addressed else (),
        own_host=own.host if own and addressed else None,
        own_port=own.port if own else None,
        local_size=int(local) if local.isdecimal() and len(local) < 7 else None,
    )


def _quote(cluster: Cluster) -> str:
    own = cluster.own
    who = f"{own.role} {own.index}" if own else "none of them"
    return f"{cluster.size} tasks, this process is {who}" + (
        f", they meet at {cluster.meeting}" if cluster.meeting else ""
    )


def _host(place: Place) -> HostSeen:
    found = [each for each in this_host.interfaces() if each.up]
    return HostSeen(
        name=place.host,
        machine=this_host.identity(),
        addresses=tuple(address for each in found for address in each.addresses),
        interfaces=tuple(each.name for each in found),
        accelerators=this_host.accelerators(),
    )


def _names(place: Place, clusters: list[Cluster]) -> Collected:
    """What the host names resolve to here. Slurm's node names need not resolve."""
    looked = Collected()
    names = list(dict.fromkeys(name for cluster in clusters for name in cluster.hosts if not _is_address(name)))
    for name, (addresses, error) in this_host.resolve(names[:MOST_NAMES]).items():
        quote = f"{name} -> {', '.join(addresses) or error}"
        looked.add(place.saw(NameLookedUp(name=name, addresses=addresses, error=error), "the resolver", quote))
    if len(names) > MOST_NAMES:
        looked.unavailable(
            f"{len(names) - MOST_NAMES} host names", f"each process resolves only the first {MOST_NAMES}"
        )
    return looked


def _port(place: Place, cluster: Cluster) -> Collected:
    """The port that this process will listen on: a TensorFlow task's own, or rank 0's meeting place."""
    looked = Collected()
    own = cluster.own
    port, variable = (own.port, cluster.said_by) if own else (None, cluster.said_by)
    if port is None:
        return looked
    free = this_host.port_is_free(port)
    if free is None:
        looked.add(place.saw(PortPrivileged(port=port, variable=variable), variable, f"port {port}"))
    elif not free:
        holder = this_host.holder_of(port)
        if holder is None or not this_host.is_ancestor(holder[0]):
            who = f"{holder[1]} (pid {holder[0]})" if holder else "another process"
            looked.add(place.saw(PortTaken(port=port), "listening sockets", f"{who} listens on port {port}"))
    return looked


def _proxies(place: Place, cluster: Cluster) -> Collected:
    looked = Collected()
    if cluster.said_by not in ("TF_CONFIG", "JAX", "Cloud TPU"):
        return looked
    for name in PROXIES:
        variable = next((each for each in (name, name.upper()) if place.env.get(each, "").strip()), None)
        if variable is None:
            continue
        exempt = [
            part for each in EXEMPT for part in (place.env.get(each) or place.env.get(each.upper()) or "").split(",")
        ]
        through = tuple(each for each in _reached(cluster) if not any(_covers(part.strip(), each) for part in exempt))
        if through:
            looked.add(place.saw(ProxySet(variable=variable, through=through[:20]), variable, f"{variable} is set"))
        break
    return looked


def _reached(cluster: Cluster) -> Iterator[str]:
    yield from cluster.hosts
    if cluster.meeting and not cluster.hosts:
        yield cluster.meeting.rpartition(":")[0].strip("[]")


def _covers(pattern: str, name: str) -> bool:
    """Whether an entry of no_proxy exempts a host: a name suffix or ``*``; gRPC before 1.57 knows no address ranges."""
    pattern = pattern.removeprefix("*.").lstrip(".").lower()
    if not pattern:
        return False
    if "/" in pattern and _is_address(name):
        try:
            return ipaddress.ip_address(name) in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    return pattern == "*" or name.lower() == pattern or name.lower().endswith(f".{pattern}")


def _interfaces(place: Place) -> Collected:
    looked = Collected()
    found = [each for each in this_host.interfaces() if each.up and each.addresses]
    for variable in INTERFACE_VARIABLES:
        if value := place.env.get(variable, "").strip():
            matches = [each for each in found if _chosen(value, each.name)]
            wanted = InterfaceWanted(
                variable=variable,
                value=value[:200],
                matches=tuple(each.name for each in matches),
                loopback_only=bool(matches) and all(each.loopback for each in matches),
                here=tuple(each.name for each in found if not each.loopback),
            )
            looked.add(place.saw(wanted, variable, f"{variable}={value[:100]}"))
    return looked


def _chosen(value: str, name: str) -> bool:
    """NCCL's grammar: prefixes, ``=`` for exact names, ``^`` for all others; a device may end in ``:1``."""
    exclude, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    parts = [part.strip().partition(":")[0] for part in value.lstrip("^=").split(",") if part.strip()]
    named = any(name == part or (not exact and name.startswith(part)) for part in parts)
    return named is not exclude


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return is_loopback(name)
    return True
