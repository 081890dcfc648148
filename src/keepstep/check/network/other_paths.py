# SPDX-License-Identifier: Apache-2.0
"""The other ways to a host: each of its addresses, and ports that the job does not use yet. One host's part of it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from keepstep.check.network.probe import ProbeContact, probe
from keepstep.model.facts.links import Reached
from keepstep.model.facts.paths import AddressChosen, AddressTried, PortsTried
from keepstep.sources.host import this_host

MOST_ADDRESSES = 8
MOST_PORTS = 64
AT_ONCE = 16
TRY_S = 1.3
"""The first SYN is sent again after one second."""
GLOO = "GLOO_SOCKET_IFNAME"
T = TypeVar("T")


def interfaces_here() -> dict[str, str]:
    """The interface of each address at which others could reach this host."""
    found = {}
    for each in this_host.interfaces():
        for address in each.addresses if each.up else ():
            read = ipaddress.ip_address(address)
            if not read.is_loopback and not read.is_link_local:
                found[address] = each.name
    return found


def chosen(name: str, env: Mapping[str, str]) -> AddressChosen | None:
    """The address that gloo gives out on this host; None if it cannot be said."""
    if wanted := env.get(GLOO, "").partition(",")[0].strip():
        own = next((each for each in this_host.interfaces() if each.name == wanted and each.addresses), None)
        if own is None:
            return None
        by = f"{GLOO}={wanted}"
        return AddressChosen(host=name, address=own.addresses[0], by=by, interface=wanted, loopback=own.loopback)
    known = socket.gethostname()
    here, _ = this_host.resolve([known])[known]
    names = {address: each.name for each in this_host.interfaces() for address in each.addresses}
    for address in here:
        loopback = ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if loopback or address in names:
            by = f"the host name {known}"
            return AddressChosen(host=name, address=address, by=by, interface=names.get(address), loopback=loopback)
    return None


def try_addresses(
    source: str, target: str, who: str, addresses: Mapping[str, str], port: int, token: bytes
) -> list[AddressTried]:
    """Each address of the other host, all at once, on a port where it listens."""
    wanted = list(addresses)[:MOST_ADDRESSES]
    found = _all_at_once(lambda address: probe(address, port, token, who, bulk_s=None, within=TRY_S), wanted)
    return [
        AddressTried(
            source=source,
            target=target,
            address=address,
            interface=addresses[address],
            reached=each.reached,
            said=each.said,
        )
        for address, each in zip(wanted, found, strict=True)
    ]


def try_ports(source: str, target: str, who: str, address: str, ports: Iterable[int], token: bytes) -> PortsTried:
    """Each of these ports of the other host, all at once; it listens on them."""
    wanted = list(ports)[:MOST_PORTS]
    found = _all_at_once(lambda port: probe(address, port, token, who, bulk_s=None, within=TRY_S), wanted)
    good = {port for port, each in zip(wanted, found, strict=True) if each.reached is Reached.CONNECTED}
    return PortsTried(
        source=source,
        target=target,
        reached=tuple(port for port in wanted if port in good),
        blocked=tuple(port for port in wanted if port not in good),
    )


def _all_at_once(tried: Callable[[T], ProbeContact], wanted: list[T]) -> list[ProbeContact]:
    if not wanted:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
        return list(pool.map(tried, wanted))
