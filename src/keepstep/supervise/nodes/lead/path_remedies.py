# SPDX-License-Identifier: Apache-2.0
"""Remedies that need another path between the hosts: another interface, other ports, another transport. Pure.

All of them follow from what was tried between the hosts: an address or a port that nobody has reached is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keepstep.base.wording import listing
from keepstep.guard.transport import INTERFACE
from keepstep.model.cause import Cause
from keepstep.model.finding import Confidence, Finding
from keepstep.model.report import Report
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.executor import Applied
from keepstep.supervise.nodes.lead.network_look import Hosts
from keepstep.supervise.nodes.lead.reachable import Way, blocked, dead_ends, in_a_row, reached_ports, unreached, ways

PINNED = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", INTERFACE)
EPHEMERAL = "cat /proc/sys/net/ipv4/ip_local_port_range; sysctl -w net.ipv4.ip_local_port_range='LOW HIGH'"
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Pin:
    """What names an interface to the ranks of one node."""

    interface: str
    variables: Mapping[str, str]
    address: str | None
    """Where the others reach the node, if not where it says."""


def other_paths(
    report: Report, hosts: Hosts, applied: Applied, needs: Mapping[int, int], frameworks: frozenset[str]
) -> tuple[Remedy, ...]:
    """What could be done. ``needs``: how many ports each node needs."""
    root = report.root
    if root is None or root.confidence is Confidence.HYPOTHESIS or not hosts.seen:
        return ()
    if root.cause is Cause.NETWORK_WRONG_INTERFACE:
        return _pin(hosts, applied)
    if root.cause in (Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW):
        return _pin(hosts, applied) if unreached(hosts.seen) else _move(root, hosts, applied, needs, frameworks)
    return ()


def _pin(hosts: Hosts, applied: Applied) -> tuple[Remedy, ...]:
    """Name the interface that works on each host; and its address, if the job used another that does not."""
    found = ways(hosts.seen)
    if set(found) != set(hosts.nodes) or not (dead_ends(hosts.seen) or unreached(hosts.seen)):
        return ()
    by_node = tuple((node, _variables(way)) for host, way in found.items() for node in hosts.nodes[host])
    if all(applied.by_node.get(node, {}).items() >= dict(variables).items() for node, variables in by_node):
        return ()
    elsewhere = unreached(hosts.seen)
    names = list(dict.fromkeys(way.interface for way in found.values()))
    where = listing([f"{way.address} of {host}" for host, way in list(found.items())[:MOST_NAMED]])
    more = "" if len(found) <= MOST_NAMED else f" and {len(found) - MOST_NAMED} more hosts"
    return (
        Remedy(
            name=f"pin {','.join(names)}",
            does=f"use the interface {listing(names)} ({where}{more}), through which all hosts reach each other,"
            " at no cost",
            by_node=by_node,
            addresses=tuple(
                (node, way.address) for host, way in found.items() if host in elsewhere for node in hosts.nodes[host]
            ),
            command=f"export NCCL_SOCKET_IFNAME={names[0]} GLOO_SOCKET_IFNAME={names[0]}",
        ),
    )


def pins_of(hosts: Hosts) -> dict[int, Pin]:
    """For each node the interface that all hosts reach; nothing if there is a host without one.

    For nodes that come after the remedy was found: an interface is pinned by its name, and each host has its own.
    """
    found, elsewhere = ways(hosts.seen), unreached(hosts.seen)
    if set(found) != set(hosts.nodes):
        return {}
    return {
        node: Pin(way.interface, dict(_variables(way)), way.address if host in elsewhere else None)
        for host, way in found.items()
        for node in hosts.nodes[host]
    }


def _variables(way: Way) -> tuple[tuple[str, str], ...]:
    family = (("NCCL_SOCKET_FAMILY", "AF_INET6"),) if ":" in way.address else ()
    return (("NCCL_SOCKET_IFNAME", f"={way.interface}"), *((name, way.interface) for name in PINNED), *family)


def _move(
    root: Finding, hosts: Hosts, applied: Applied, needs: Mapping[int, int], frameworks: frozenset[str]
) -> tuple[Remedy, ...]:
    """Take ports that the other hosts reach. Libraries that take any free port cannot be moved."""
    if blocked(hosts.seen, of_the_job=False) and frameworks != {"tensorflow"}:
        return (_advice_on_free_ports(hosts),)
    good = reached_ports(hosts.seen)
    chosen: list[tuple[int, tuple[int, ...]]] = []
    words = []
    for host in blocked(hosts.seen, of_the_job=True):
        row = in_a_row(good.get(host, ()))
        nodes = hosts.nodes.get(host, ())
        for node in nodes:
            mine, row = row[: needs.get(node, 0)], row[needs.get(node, 0) :]
            if not mine or len(mine) < needs.get(node, 0):
                return ()
            chosen.append((node, tuple(mine)))
            words.append(f"{mine[0]} to {mine[-1]} of {host}")
    if not chosen or all(applied.ports.get(node) == ports for node, ports in chosen):
        return ()
    where = listing(words[:MOST_NAMED])
    return (
        Remedy(
            name=f"ports {where}",
            does=f"use the ports {where}, which the other hosts reach, at no cost",
            ports=tuple(chosen),
        ),
    )


def _advice_on_free_ports(hosts: Hosts) -> Remedy:
    names: Sequence[str] = list(blocked(hosts.seen, of_the_job=False))
    ranges = [each for ports in reached_ports(hosts.seen).values() if len(each := in_a_row(ports)) > 1]
    known = f" (for example from {ranges[0][0]} on)" if ranges else ""
    return Remedy(
        name="free ports",
        does=f"open the ports of {listing(names[:MOST_NAMED])} that the kernel gives to programs, or let it give open"
        f" ones{known}: gloo and NCCL take any free port, and no setting of theirs changes that",
        advice_only=True,
        command=EPHEMERAL,
    )
