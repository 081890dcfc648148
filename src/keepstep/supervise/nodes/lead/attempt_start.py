# SPDX-License-Identifier: Apache-2.0
"""The start of an attempt on several nodes: who sits where, what each node gets; and small words about nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from keepstep.base.wording import count, listing
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.executor import Applied
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.membership import News
from keepstep.supervise.nodes.lead.node_news import Leaving, Told
from keepstep.supervise.nodes.lead.placement import Place, Roles, counts, seat
from keepstep.supervise.start.layout import MORE_PORTS, Layout

READY_S = 10.0
STOPS = (Happened.STOPPED, Happened.SUSPECTED)
WELL = (Happened.ENDED_WELL, Happened.INTERRUPTED, Happened.GROWS)
Answered = Callable[[type[said.Ready], Sequence[int], float], dict[int, said.Ready]]


class NotReady(Exception):
    """Nodes that did not answer when they were asked to prepare."""

    def __init__(self, nodes: list[int]) -> None:
        super().__init__(f"not ready: {nodes}")
        self.nodes = nodes


def seated(
    leader: Leader, attempt: int, places: Sequence[Place], roles: Roles, applied: Applied, answered: Answered
) -> Layout:
    """Which rank sits where, with ports that each node has found free. Raises :class:`NotReady`."""
    places = [replace(place, address=applied.addresses.get(place.node, place.address)) for place in places]
    nodes, wanted = [place.node for place in places], counts(places, roles)
    leader.forget(said.Ready)
    for node in nodes:
        ports = applied.ports.get(node, ())
        leader.tell([node], said.Prepare(attempt=attempt, ranks=wanted[node] + MORE_PORTS, ports=ports))
    ready = answered(said.Ready, nodes, READY_S)
    if missing := [node for node in nodes if node not in ready]:
        raise NotReady(missing)
    return seat(places, roles, {node: each.ports for node, each in ready.items()})


def start(
    leader: Leader, attempt: int, nodes: Sequence[int], layout: Layout, applied: Applied, *, may_start_over: bool
) -> None:
    """Each node with the variables that remedies have set for it."""
    made: dict[tuple[tuple[str, str], ...], said.Start] = {}
    for node in nodes:
        variables = tuple(applied.variables_of(node).items())
        if variables not in made:  # most get the same one, which is encoded once
            made[variables] = said.Start(
                attempt=attempt,
                layout=layout,
                variables=variables,
                limits=tuple(applied.limits.items()),
                may_start_over=may_start_over,
            )
        leader.tell([node], made[variables])


def is_stop(news: News | Told | Leaving) -> bool:
    """Whether a node reports ranks that make no progress: what is lost goes before, as it may be the reason."""
    return isinstance(news, Told) and news.happened.what in {each.value for each in STOPS}


def hosts_of(hosts: Iterable[str]) -> str:
    """The hosts in words: how many nodes, and which."""
    every = list(hosts)
    return f"{count(len(every), 'node')} ({listing(every)})"
