# SPDX-License-Identifier: Apache-2.0
"""Ports of this host: which are free, and how to listen on one."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOWEST_PORT = 15000


def free_ports(count: int, first: Sequence[int] = ()) -> list[int]:
    """Free ports outside those that the kernel gives to outgoing connections, so no peer takes one by chance.

    ``first``: rather these, as far as they are free.
    """
    low = 32768
    with contextlib.suppress(OSError, ValueError, IndexError):
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    below = range(LOWEST_PORT, low) if low - LOWEST_PORT >= 1000 else range(0)
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        others = random.SystemRandom().sample(below, min(len(below), 50 * count))
        for port in (*first, *(each for each in others if each not in first), *[0] * count):
            trial = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError, OverflowError):
                trial.bind(("", port))
                found.append(trial.getsockname()[1])
                if len(found) == count:
                    break
    return found


def listen(port: int, address: str | None = None, *, backlog: int = 256) -> socket.socket:
    """A listening socket at an address of this host; None: at all, for both IP versions if the host has both.

    ``port``: 0 for any free one. Raises ``OSError``, with the kernel's own words, or ``OverflowError`` for no port.
    """
    if address is not None:
        family, _, _, _, found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0]
        return _listen(family, (found[0], port, *found[2:]), backlog)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return _listen(socket.AF_INET6, ("::", port), backlog)
    return _listen(socket.AF_INET, ("", port), backlog)


def _listen(family: int, address: tuple[Any, ...], backlog: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        made.bind(address)
        made.listen(backlog)
    except BaseException:
        made.close()
        raise
    return made
