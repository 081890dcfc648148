# SPDX-License-Identifier: Apache-2.0
"""In the middle of training one host is no longer heard: what it sends is dropped, what it gets is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        host = network.host_struck(run)
        network.add(run, host, "-o", "eth0", "-p", "tcp", "-j", "DROP", chain="OUTPUT")
        run.strike(f"nothing that host {host} sends arrives")


def proof(run: Run) -> str:
    return network.packets_met(run)
