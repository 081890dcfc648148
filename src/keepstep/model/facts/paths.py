# SPDX-License-Identifier: Apache-2.0
"""Other ways between two hosts: their other addresses, and other ports."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressChosen(Fact):
    """The address that a library without further settings gives to the other ranks (gloo's rule)."""

    host: str
    address: str
    by: str
    """What it follows from: ``the host name node-1``, ``GLOO_SOCKET_IFNAME=eth1``."""
    interface: str | None = None
    loopback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressTried(Fact):
    """One host opened a connection to one of the addresses of another."""

    source: str
    target: str
    address: str
    interface: str | None = None
    """The target's interface that has this address."""
    reached: Reached = Reached.CONNECTED
    said: str = ""
    """The kernel's message, or who answered."""

    @property
    def usable(self) -> bool:
        return self.reached is Reached.CONNECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsTried(Fact):
    """One host opened connections to ports of another, where a process of the check listened on each."""

    source: str
    target: str
    reached: tuple[int, ...] = ()
    blocked: tuple[int, ...] = ()
