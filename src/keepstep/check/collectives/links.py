# SPDX-License-Identifier: Apache-2.0
"""By which kind of link two ranks reach each other, from what each says of its own end."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from keepstep.base.wording import size as say_size
from keepstep.sources.host.links import cards, gpu_links, rdma, speed_of
from keepstep.sources.host.this_host import identity, interfaces

HERE, APART = "the host's own links", "the network"
"""Kinds of which nothing more is known."""


class End(NamedTuple):
    """One rank's end of its links."""

    host: str
    """Distinguishes hosts as the network sees them."""
    name: str
    here: str
    """The kind of link to ranks of the same host."""
    medium: str
    """The kind of link to ranks of other hosts."""
    device: str
    gives: float
    """Bytes a second that the device says; 0 if not known."""
    gpu: str = ""
    gpus: Mapping[str, tuple[str, float]] = {}
    """The links to the other GPUs of this host, by UUID."""


class Link(NamedTuple):
    medium: str
    words: str
    """What its ends say of it."""
    gives: float


def own_end(gpu: str | None, env: Mapping[str, str] = os.environ) -> End:
    """``gpu``: the UUID of the one that this rank trains on; None where collectives go through sockets (gloo)."""
    host, name = identity(), socket.gethostname()
    if gpu is None:
        device = _interface_of_gloo(env)
        speed = speed_of(device) if device else 0.0
        return End(host, name, "loopback", "ethernet" if speed else APART, device, speed)
    fabric = rdma() if env.get("NCCL_IB_DISABLE", "0") == "0" else None
    if fabric is None:
        known = cards()
        device = env.get("NCCL_SOCKET_IFNAME", known[0] if len(known) == 1 else "")
        speed = speed_of(device) if device else 0.0
        fabric = ("ethernet" if speed else APART, device, speed)
    return End(host, name, HERE, *fabric, gpu, gpu_links(gpu))


def _interface_of_gloo(env: Mapping[str, str]) -> str:
    """Which torch gives to gloo: the variable's first, else the one with the address of this host's name."""
    if named := env.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]:
        return named
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""
    return next((each.name for each in interfaces() if address in each.addresses and not each.loopback), "")


def link_between(one: End, other: End) -> Link:
    if one.host == other.host:
        name, gives = one.gpus.get(other.gpu, ("", 0.0))
        medium = ("NVLink" if name.startswith("NV") else "PCIe") if name else one.here
        return Link(medium, name + (f", {say_size(int(gives))}/s" if gives else ""), gives)
    medium = one.medium if one.medium == other.medium else APART
    gives = min(one.gives, other.gives) if medium != APART else 0.0
    ends = [f"{each.device} of {each.name} says {each.gives * 8 / 1e9:g} Gbit/s" for each in (one, other) if each.gives]
    return Link(medium, "; ".join(ends), gives)
