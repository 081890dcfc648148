# SPDX-License-Identifier: Apache-2.0
"""In the middle of training a firewall begins to drop all that comes to one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        host = network.host_struck(run)
        network.add(run, host, *network.EVERYTHING, "-j", "DROP")
        run.strike(f"host {host} drops all that comes in")


def proof(run: Run) -> str:
    return network.packets_met(run)
