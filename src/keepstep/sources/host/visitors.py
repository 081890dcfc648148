# SPDX-License-Identifier: Apache-2.0
"""Who has connected to a port of ours and has proved nothing yet. Those who say nothing must keep nobody out."""

from __future__ import annotations

import contextlib
import ipaddress
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Visitors(Generic[V]):
    """At most so many. Where one more comes, the address with the most visitors loses the one that came first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._from: dict[V, str] = {}

    def __len__(self) -> int:
        return len(self._from)

    def __iter__(self) -> Iterator[V]:
        return iter(self._from)

    def __contains__(self, visitor: object) -> bool:
        return visitor in self._from

    def come(self, visitor: V, address: str) -> V | None:
        """Add one; returns the one that has to go for it."""
        dropped = self.leave_first() if len(self) >= self._most else None
        self._from[visitor] = _whose(address)
        return dropped

    def leave_first(self) -> V | None:
        """Take out the one that has to go when there is no room."""
        counts = Counter(self._from.values())
        most = max(counts.values(), default=0)
        first = next((visitor for visitor, whose in self._from.items() if counts[whose] == most), None)
        if first is not None:
            self.gone(first)
        return first

    def gone(self, visitor: V) -> None:
        self._from.pop(visitor, None)


def _whose(address: str) -> str:
    """One name for all addresses that a single host can easily have: in IPv6, a network of 64 bits."""
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address):
            return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return address
