# SPDX-License-Identifier: Apache-2.0
"""What one launcher said: a cluster, as far as it can be understood, and every fault in its variables."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from keepstep.base.launchers import Launcher, first_set
from keepstep.cluster.address import read_address
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.model.facts.cluster import Fault, VariableFaulty

MOST_TASKS = 200_000
_LONGEST_SHOWN = 80
_EXAMPLES = {"MASTER_PORT": "29500", "JAX_COORDINATOR_PORT": "1234"}


@dataclass
class ClusterSaid:
    cluster: Cluster | None = None
    faults: list[VariableFaulty] = field(default_factory=list)


@dataclass
class Variables:
    """The variables of one launcher, read one by one; what is wrong with them gathers in ``faults``."""

    env: Mapping[str, str]
    faults: list[VariableFaulty] = field(default_factory=list)

    def place(
        self, *rows: Launcher, needed: tuple[str, ...] = (), size: int | None = None
    ) -> tuple[int | None, int | None, int | None]:
        """Size, rank and local rank, each by the first of its variables that is set. One outside its range is a fault.

        This is the only place that knows the ranges. ``needed``: the meanings (``size``, ``rank``) that must be there;
        ``size``: the size, where no variable states it.
        """

        def read(meaning: str, *, low: int = 0, below: int | None = None) -> int | None:
            names = tuple(name for row in rows for name in getattr(row, meaning))
            if not names:
                return None
            high = MOST_TASKS if below is None else max(below - 1, 0)
            return self.number(first_set(self.env, names) or names[0], low=low, high=high, needed=meaning in needed)

        size = read("size", low=1) if size is None else size
        rank = read("rank", below=size)
        return size, rank, read("local_rank", below=read("local_size", low=1))

    def number(self, name: str, *, low: int = 0, high: int = MOST_TASKS, needed: bool = False) -> int | None:
        """The number in ``name``; None where it is absent or none."""
        text = self.env.get(name)
        wanted = f"a number from {low} to {high}" if high < MOST_TASKS else f"a number, {low} or more"
        if text is None or not text.strip():
            if needed:
                self.fault(name, Fault.ABSENT, text, wanted, _EXAMPLES.get(name, str(low)))
            return None
        if not re.fullmatch(r"\s*-?[0-9]{1,12}\s*", text):
            self.fault(name, Fault.NOT_A_NUMBER, text, wanted, _EXAMPLES.get(name, str(low)))
            return None
        if not low <= int(text) <= high:
            self.fault(
                name,
                Fault.OUT_OF_RANGE,
                text.strip(),
                wanted,
                _EXAMPLES.get(name, str(high if int(text) == high + 1 else low)),
            )
            return None
        return int(text)

    def host(self, name: str, *, needed: bool = False) -> str | None:
        """The host in ``name``; a port, a scheme or nonsense in it is a fault."""
        text = (self.env.get(name) or "").strip()
        if not text:
            if needed:
                self.fault(
                    name, Fault.ABSENT, self.env.get(name), "the address of the host of rank 0", socket.gethostname()
                )
            return None
        address = read_address(text)
        if address.fault is Fault.ADDRESS_WITHOUT_PORT:
            return address.host
        fault = address.fault or Fault.ADDRESS_MALFORMED
        self.fault(name, fault, text, "a host without scheme and port", better=address.host or socket.gethostname())
        return address.host

    def address(self, name: str, *, needed: bool = False) -> str | None:
        """``host:port`` in ``name``."""
        text = (self.env.get(name) or "").strip()
        if not text:
            if needed:
                self.fault(name, Fault.ABSENT, self.env.get(name), "HOST:PORT")
            return None
        address = read_address(text, 1234)
        if address.fault is not None:
            self.fault(name, address.fault, text, "HOST:PORT", better=address.better)
            return address.better
        return text

    def fault(self, name: str, fault: Fault, value: str | None, wanted: str, better: str | None = None) -> None:
        shown = None if value is None else value[:_LONGEST_SHOWN]
        sure = fault is Fault.SCHEME_IN_ADDRESS
        self.faults.append(
            VariableFaulty(variable=name, fault=fault, value=shown, wanted=wanted, better=better, sure=sure)
        )


def evenly(
    size: int, *, me: int | None = None, local: int | None = None, hosts: tuple[str, ...] = ()
) -> tuple[Task, ...]:
    """``size`` tasks, spread in blocks over ``hosts`` where those are known."""

    def host_of(rank: int) -> str | None:
        return hosts[rank * len(hosts) // size] if hosts else None

    return tuple(
        Task(rank=rank, index=rank, host=host_of(rank), local=local if rank == me else None) for rank in range(size)
    )
