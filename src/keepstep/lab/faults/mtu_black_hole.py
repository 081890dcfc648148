# SPDX-License-Identifier: Apache-2.0
"""Packets above 1,300 bytes get lost between the hosts, small ones pass: a wrong MTU on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LARGEST = 1300


def prepare(run: Run) -> None:
    for host in range(run.scenario.hosts):
        length = ("-m", "length", "--length", f"{LARGEST + 1}:65535")
        network.add(run, host, *network.EVERYTHING, *length, "-j", "DROP")


def outside(run: Run) -> None:
    network.strike_when_met(run)


def proof(run: Run) -> str:
    return network.packets_met(run)
