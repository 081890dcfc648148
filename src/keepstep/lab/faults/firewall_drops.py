# SPDX-License-Identifier: Apache-2.0
"""The firewall of rank 0's host silently drops every connection from other hosts, from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    network.add(run, run.host_of(0), *network.NEW_CONNECTIONS, "-j", "DROP")


def proof(run: Run) -> str:
    return network.packets_met(run)
