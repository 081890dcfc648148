# SPDX-License-Identifier: Apache-2.0
"""The tournament as rank 0 conducts it: one process per host takes part, the others on that host rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keepstep.check.meeting.meeting_point import Appointment, Attendee, Desk
from keepstep.check.network.conductor import Ask, Conductor, Player, Request, told_apart
from keepstep.check.network.host_part import Duty, look, own_addresses
from keepstep.check.network.tournament import how_many
from keepstep.check.place import Collected, Place
from keepstep.cluster.address import is_loopback
from keepstep.model.facts.links import LinkProbed
from keepstep.sources.host import this_host as this_host

GRPC_ROUNDS = 3
"""With more than four hosts, each calls three others: what breaks only gRPC lies in hosts rather than links."""
STEP_S = 30.0
"""The longest one step may take: every port silent, then every packet size tried."""
PLAIN = ("TF_CONFIG",)
"""Frameworks whose jobs connect only to the ports they list."""


def conduct(place: Place, appointment: Appointment, desk: Desk, duty: Duty, sample: int | None) -> Collected:
    """Let every host probe every other one."""
    looked = Collected()
    guests, players = _players(place, appointment, desk.guests)
    if len(players) < 2:
        looked.unavailable("links between hosts", "all processes that came are on one host")
        looked.take(look(place))
        return looked
    plain = place.cluster is not None and place.cluster.said_by in PLAIN
    conductor = Conductor(players, _asking(guests, desk, duty), also_free=not plain)
    found = conductor.probe_all(looked, sample, appointment.identity)
    if plain:
        found += conductor.grpc(looked, found, min(sample or GRPC_ROUNDS, GRPC_ROUNDS), appointment.identity)
    looked.add(*found, *conductor.stop())
    pairs = len({(e.fact.source, e.fact.target) for e in found if isinstance(e.fact, LinkProbed)})
    looked.checked(f"{pairs} links between {len(players)} hosts")
    every = how_many(len(players))
    if sample is not None and sample < every:
        looked.unavailable(f"{every - sample} of {every} rounds between hosts", f"--sample {sample}")
    return looked


def _asking(guests: Sequence[Attendee | None], desk: Desk, duty: Duty) -> Ask:
    """Asks the guests at the desk; this process does its own part meanwhile."""

    def ask(requests: Mapping[int, Request], during: str) -> dict[int, dict[str, Any]]:
        own: dict[int, dict[str, Any]] = {}
        asked: dict[Attendee, Request] = {}
        numbers: dict[Attendee, int] = {}
        mine: tuple[int, Request] | None = None
        for n, request in requests.items():
            guest = guests[n]
            if guest is None:
                mine = (n, request)
            else:
                asked[guest] = request
                numbers[guest] = n

        def meanwhile() -> None:
            if mine is not None:
                own[mine[0]] = duty.do(mine[1])

        answers = desk.ask(asked, STEP_S, during, meanwhile)
        return own | {numbers[guest]: answer for guest, answer in answers.items() if "failed" not in answer}

    return ask


def _players(
    place: Place, appointment: Appointment, guests: Sequence[Attendee]
) -> tuple[list[Attendee | None], list[Player]]:
    """One process per host, in rank order, with the ports that the job uses there. None: this process."""
    cluster = place.cluster
    tasks = {task.rank: task for task in cluster.tasks} if cluster else {}
    own_rank = place.rank.index if place.rank else None
    here = Player(own_rank, place.host, appointment.host, this_host.identity(), own_addresses())
    players = {here.who: here}
    came: dict[str, Attendee | None] = {here.who: None}
    members: list[tuple[int | None, Player]] = [(own_rank, here)]
    for guest in sorted((g for g in guests if not g.gone), key=lambda g: (g.rank is None, g.rank)):
        player = Player(guest.rank, guest.host, guest.seen_at, guest.who, guest.addresses, is_gone=_gone(guest))
        came.setdefault(guest.who, guest)
        members.append((guest.rank, players.setdefault(guest.who, player)))
    for rank, player in members:
        task = tasks.get(rank) if rank is not None else None
        if task is None:
            continue
        if task.host and not is_loopback(task.host) and player.rank == rank:
            player.name = task.host
        if task.port and task.port not in player.job_ports:
            player.job_ports.append(task.port)
    found = list(players.values())
    told_apart(found)
    return [came[player.who] for player in found], found


def _gone(guest: Attendee) -> Callable[[], bool]:
    return lambda: guest.gone
