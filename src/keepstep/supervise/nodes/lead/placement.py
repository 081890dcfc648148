# SPDX-License-Identifier: Apache-2.0
"""Which nodes take part in the next attempt, and which rank sits where. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keepstep.base.lazy_dataclass import dataclass
from keepstep.supervise.start.layout import Layout, Seat


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """TensorFlow's roles besides the workers."""

    chief: bool = False
    ps: int = 0
    evaluator: bool = False


ONLY_WORKERS = Roles()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """One node that takes part."""

    node: int
    machine: str
    address: str
    ranks: int
    """How many of them train."""


def counts(places: Sequence[NodePlace], roles: Roles) -> dict[int, int]:
    """How many processes each node starts: its training ranks, and its share of the parameter servers, in turns.

    The evaluator is where the training ends: on the node of the chief, or of rank 0.
    """
    found = {place.node: place.ranks for place in places}
    for n in range(roles.ps):
        found[places[n % len(places)].node] += 1
    found[places[0].node] += roles.evaluator
    return found


def seat(places: Sequence[NodePlace], roles: Roles, ports: Mapping[int, Sequence[int]]) -> Layout:
    """Training ranks first, node after node; then the parameter servers, in turns, and the evaluator."""
    free = {place.node: list(ports[place.node]) for place in places}
    first = places[0]
    store, coordinator = free[first.node].pop(), free[first.node].pop()
    seats: list[Seat] = []

    def sit(place: NodePlace, role: str) -> None:
        index = sum(each.role == role for each in seats)
        port = free[place.node].pop(0)
        seats.append(
            Seat(
                rank=len(seats),
                node=place.node,
                machine=place.machine,
                host=place.address,
                port=port,
                role=role,
                index=index,
            )
        )

    for place in places:
        for _ in range(place.ranks):
            sit(place, "chief" if not seats and (roles.chief or roles.ps) else "worker")
    for n in range(roles.ps):
        sit(places[n % len(places)], "ps")
    if roles.evaluator:
        sit(first, "evaluator")
    return Layout(seats=tuple(seats), store_port=store, coordinator_port=coordinator)
