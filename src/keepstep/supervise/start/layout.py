# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of one attempt are, and where they meet."""

from __future__ import annotations

from collections.abc import Collection

from keepstep.base.lazy_dataclass import dataclass
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.supervise.start.started_process import StartedProcess

LOOPBACK = "127.0.0.1"
MORE_PORTS = 2
"""Besides one for each rank: for torch's store, and for JAX's coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where one rank is."""

    rank: int
    node: int = 0
    machine: str = ""
    """The name of the machine: ranks of several agents on one machine share its devices."""
    host: str = LOOPBACK
    """Where the others reach it."""
    port: int
    role: str = "worker"
    index: int = 0

    @property
    def member(self) -> StartedProcess:
        return StartedProcess(rank=self.rank, role=self.role, index=self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All seats, in the order of their ranks. All meet on the host of rank 0."""

    seats: tuple[Seat, ...] = ()
    """None where the user's own launcher seats the ranks."""
    store_port: int = 0
    coordinator_port: int = 0

    @property
    def cluster(self) -> Cluster:
        """As a launcher would describe it."""
        return Cluster(said_by="keepstep run", tasks=tuple(self._task(seat) for seat in self.seats))

    def _task(self, seat: Seat) -> Task:
        local = [each.rank for each in self.seats if each.machine == seat.machine].index(seat.rank)
        return Task(rank=seat.rank, role=seat.role, index=seat.index, host=seat.host, port=seat.port, local=local)

    @property
    def first(self) -> Seat:
        return self.seats[0]

    def on_the_machine_of(self, rank: int) -> list[Seat]:
        """The training ranks on the machine of this one."""
        machine = next(seat.machine for seat in self.seats if seat.rank == rank)
        return [seat for seat in self.seats if seat.machine == machine and seat.member.trains]

    @property
    def servers(self) -> int:
        return sum(seat.role == "ps" for seat in self.seats)

    @property
    def nodes_that_end(self) -> set[int]:
        """The nodes whose ranks must have ended for the training to be over."""
        served = self.servers > 0
        return {seat.node for seat in self.seats if seat.member.ends_training(served=served)}

    def nodes_of(self, ranks: Collection[int]) -> list[int]:
        """The nodes of these ranks."""
        return [seat.node for seat in self.seats if seat.rank in ranks]

    @property
    def nodes(self) -> list[int]:
        return sorted({seat.node for seat in self.seats})


def on_this_machine(members: tuple[StartedProcess, ...], ports: list[int]) -> Layout:
    """The layout of a run that has one machine. ``ports``: free ones, :data:`MORE_PORTS` more than members."""
    seats = (
        Seat(rank=member.rank or 0, port=port, role=member.role, index=member.index)
        for member, port in zip(members, ports, strict=False)
    )
    store, coordinator = ports[-MORE_PORTS:]
    return Layout(seats=tuple(seats), store_port=store, coordinator_port=coordinator)
