# SPDX-License-Identifier: Apache-2.0
"""A check of several processes, from both sides: rank 0 leads it, the others attend and do what it asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keepstep.base.wording import duration
from keepstep.check.collectives import children as collectives
from keepstep.check.meeting.connection import ProvenConnection
from keepstep.check.meeting.meeting_point import Appointment, Attendee, Desk, join, open_desk
from keepstep.check.meeting.packing import packed, unpacked
from keepstep.check.network.host_part import Duty, own_addresses, reach
from keepstep.check.network.probe import ProbeContact
from keepstep.check.network.rounds import conduct
from keepstep.check.parts import look
from keepstep.check.place import Collected, Place
from keepstep.cluster.node_count import nodes_named
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.cluster import NameLookedUp
from keepstep.model.facts.links import MeetingFailed, MeetingPortsTaken, MemberLeft, MemberMissing, Reached
from keepstep.model.identity import Rank
from keepstep.sources.host import this_host as this_host

TELL_S = 120.0
"""The longest a process may take to look around on its host."""
IDLE_S = 900.0
"""How long rank 0 may be busy with others before a process gives up on it; its death is noticed at once."""
END_S = 5.0
MOST_LOOKED_FOR = 64


def lead(
    place: Place,
    appointment: Appointment,
    parts: tuple[str, ...],
    sample: int | None,
    judge: Callable[[Collected], int],
) -> int:
    """Receive the others, gather what they saw, hold the tournament, judge, and send everyone the status."""
    looked = look(place, parts)
    lost = Collected()

    def on_lost(guest: Attendee, during: str, how: str) -> None:
        fact = MemberLeft(rank=guest.rank, host=guest.host, during=during, how=how)
        lost.add(place.saw(fact, "the check", f"{guest.host}: {how} during {during}"))

    desk = open_desk(appointment, _hello(place), on_lost)
    if isinstance(desk, ProvenConnection):
        # another process also claims to be rank 0, and came first: what this one saw goes into its report
        with_it, status = _attend(place, desk, Duty(place, appointment.token), _Looking(place, parts))
        return judge(with_it) if status is None else status
    if desk is None:
        looked.add(
            place.saw(MeetingPortsTaken(ports=appointment.ports), "listening sockets", f"ports {appointment.ports}")
        )
        return judge(looked)
    duty = Duty(place, appointment.token)
    try:
        waited = desk.wait()
        looked.take(_missing(place, appointment, desk, waited))
        looked.take(_told(desk))
        if "network" in parts:
            looked.take(_links(place, appointment, desk, duty, sample))
        looked.take(_collectives(place, desk))
        looked.take(lost)
        if desk.guests:
            looked.checked(f"{len(desk.guests) + 1} processes of the job together")
        looked.coverage = list(dict.fromkeys(looked.coverage))
        status = judge(looked)
        desk.ask({guest: {"do": "end", "status": status} for guest in desk.guests}, END_S, "the end")
        return status
    finally:
        duty.close()
        desk.close()


def _links(place: Place, appointment: Appointment, desk: Desk, duty: Duty, sample: int | None) -> Collected:
    """The tournament; an error in the check itself is reported, and the rest is still judged."""
    try:
        return conduct(place, appointment, desk, duty, sample)
    except Exception as error:
        looked = Collected()
        looked.unavailable("links between hosts", f"the check itself failed: {type(error).__name__}: {error}")
        return looked


def _collectives(place: Place, desk: Desk) -> Collected:
    """Every process tries them at the same time."""
    plan = place.collectives
    if plan is None:
        return Collected()
    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(collectives.look, place, plan)
        asked = {guest: {"do": "collectives"} for guest in desk.guests}
        told = desk.ask(asked, plan.limit_s + TELL_S, "the collectives")
        looked = own.result()
    for guest, each in told.items():
        looked.take(unpacked(each, guest.host))
    return looked


def attend(place: Place, appointment: Appointment, parts: tuple[str, ...]) -> tuple[Collected, int | None]:
    """Connect to rank 0 and do what it asks. Returns its status; None and what to judge here if it is unreachable."""
    looking = _Looking(place, parts)
    found = join(appointment, _hello(place))
    if isinstance(found, ProvenConnection):
        return _attend(place, found, Duty(place, appointment.token), looking)
    looked = looking.result()
    fact = MeetingFailed(
        where=appointment.where,
        reached=found.reached,
        waited_s=appointment.wait,
        said=found.said,
        loopback=_loopback(place, appointment) if found.reached is Reached.REFUSED else None,
    )
    words = f"{appointment.where}: {found.reached.value}, for {duration(appointment.wait)}"
    looked.add(place.saw(fact, "the meeting of the check", words))
    if found.reached is Reached.UNRESOLVED:
        looked.add(
            place.saw(
                NameLookedUp(name=appointment.host, error=found.said),
                "the resolver",
                f"{appointment.host}: {found.said}",
            )
        )
    looked.unavailable("the other processes", f"rank 0 is unreachable at {appointment.where}")
    return looked, None


def _attend(place: Place, connection: ProvenConnection, duty: Duty, looking: _Looking) -> tuple[Collected, int | None]:
    try:
        while True:
            asked = connection.receive(IDLE_S)
            if asked.get("do") == "tell":
                connection.send(packed(looking.result()))
            elif asked.get("do") == "collectives" and place.collectives is not None:
                connection.send(packed(collectives.look(place, place.collectives)))
            elif asked.get("do") == "end":
                connection.send({})
                return Collected(), int(asked["status"])
            else:
                connection.send(_done(duty, asked))
    except (OSError, ValueError, TypeError, KeyError) as error:
        looked = looking.result()
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fact = MeetingFailed(where="rank 0", reached=Reached.RESET, waited_s=0.0, said=said)
        looked.add(place.saw(fact, "the meeting of the check", f"rank 0 disconnected: {said}"))
        looked.unavailable("the other processes", "rank 0 disconnected during the check")
        return looked, None
    finally:
        duty.close()
        connection.close()


def _done(duty: Duty, asked: dict[str, Any]) -> dict[str, Any]:
    """What the duty answers; an error in the check itself ends nothing."""
    try:
        return duty.do(asked)
    except (ValueError, TypeError, KeyError, OSError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}


class _Looking:
    """Looks around in a thread of its own while this process connects to rank 0."""

    def __init__(self, place: Place, parts: tuple[str, ...]) -> None:
        self._looked = Collected()
        self._thread = threading.Thread(target=lambda: self._looked.take(look(place, parts)), daemon=True)
        self._thread.start()

    def result(self) -> Collected:
        self._thread.join(TELL_S)
        return self._looked


def _hello(place: Place) -> dict[str, Any]:
    return {
        "rank": place.rank.index if place.rank else None,
        "host": place.host,
        "who": this_host.identity(),
        "addresses": list(own_addresses()),
    }


def _told(desk: Desk) -> Collected:
    """What the others saw on their hosts."""
    looked = Collected()
    for guest, told in desk.ask({guest: {"do": "tell"} for guest in desk.guests}, TELL_S, "looking around").items():
        looked.take(unpacked(told, guest.host))
    looked.coverage = list(dict.fromkeys(looked.coverage))
    return looked


def _loopback(place: Place, appointment: Appointment) -> str | None:
    """Where they were to meet, if it means each host itself and nobody says that there is only one."""
    nodes = nodes_named(place.env)
    return appointment.host if appointment.alone and (nodes is None or nodes.count > 1) else None


def _missing(place: Place, appointment: Appointment, desk: Desk, waited: float) -> Collected:
    """Which ranks did not come, and whether their hosts answer at all."""
    looked = Collected()
    missing = desk.missing()
    hosts = {task.rank: task.host for task in place.cluster.tasks} if place.cluster else {}
    came = {guest.host for guest in desk.guests} | {place.host}
    names = list(dict.fromkeys(host for rank in missing if (host := hosts.get(rank)) and host not in came))[
        :MOST_LOOKED_FOR
    ]
    attempts: dict[str, ProbeContact] = {}
    if names:
        with ThreadPoolExecutor(16) as pool:
            attempts = dict(zip(names, pool.map(lambda name: reach(name, appointment.ports[0]), names), strict=True))
    for rank in missing:
        host = hosts.get(rank)
        attempt = attempts.get(host) if host else None
        fact = MemberMissing(
            rank=rank,
            host=host,
            waited_s=waited,
            arrived=len(desk.guests) + 1,
            expected=len(appointment.expected or ()) + 1,
            reached=attempt.reached if attempt else None,
            said=attempt.said if attempt else "",
            loopback=_loopback(place, appointment),
        )
        words = f"rank {rank}{f' on {host}' if host else ''} did not come within {duration(waited)}"
        if attempt is not None:
            words += f"; its host: {attempt.said or attempt.reached.value}"
        if attempt is not None and attempt.reached is Reached.UNRESOLVED:
            looked.add(
                place.saw(NameLookedUp(name=host or "", error=attempt.said), "the resolver", f"{host}: {attempt.said}")
            )
        origin = Origin(source=f"the meeting on {place.host}")
        looked.add(Evidence(fact=fact, origin=origin, rank=Rank(index=rank, node=host), quote=words))
    return looked
