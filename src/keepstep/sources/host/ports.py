# SPDX-License-Identifier: Apache-2.0
"""Free ports on this host."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from pathlib import Path

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
