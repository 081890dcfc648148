# SPDX-License-Identifier: Apache-2.0
"""The firewalls let only the meeting port through: the ranks find each other, and then cannot connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for host in range(run.scenario.hosts):
        network.add(run, host, *network.EVERYTHING, "--dport", str(run.ports[0]), "-j", "ACCEPT")
        network.add(run, host, *network.NEW_CONNECTIONS, "-j", "DROP")


def outside(run: Run) -> None:
    network.strike_when_met(run)


def proof(run: Run) -> str:
    return network.packets_met(run)
