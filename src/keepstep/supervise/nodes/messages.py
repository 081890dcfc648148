# SPDX-License-Identifier: Apache-2.0
"""Everything that agents and the leader say to each other: plain data, as JSON. No command, no code, no environment."""

from __future__ import annotations

import dataclasses
import json
import re
from enum import Enum
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.codec import build
from keepstep.supervise.start.layout import Layout, Seat

LARGEST = 4 << 20
"""Bytes of one message. Evidence travels in smaller pieces."""
NEVER = -1
"""The attempt of a node that has taken part in none."""


class BadMessage(ValueError):
    """The other side sent what no keepstep of this version sends."""


class State(Enum):
    """What a node does, as its agent says."""

    IDLE = "idle"
    """No process of any attempt lives on it."""
    RUNS = "runs"
    ENDS = "ends"
    """Its ranks are being ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The base of all."""


# --- from an agent to the leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Message):
    """The first message on every connection, also after a cut."""

    run: str
    """The name of the run, the same on all nodes."""
    node: int
    """Its place in the engine's order of nodes."""
    host: str
    address: str | None
    """Where the other nodes reach it; None: where this connection comes from."""
    version: str
    python: str
    program: str
    """A hash of the command and of the script: all nodes must run the same."""
    per_node: int | None
    wall: float | None = None
    """The time on its clock."""
    attempt: int = NEVER
    """The newest attempt that it knows of."""
    state: State = State.IDLE
    agent: str = ""
    """Drawn by the agent's process: the same one may connect again at once, a second one may not."""
    call: int = 0
    """How many connections it has made before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Message):
    """Twice a second: the node lives, and how far its ranks are."""

    number: int
    attempt: int
    state: State
    steps: int = 0
    quiet_s: float | None = None
    """For how long none of its ranks has moved."""
    wants_s: float | None = None
    """How long a lease it needs, because answers come late; None: the usual one is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Message):
    """The answer to :class:`Prepare`: free ports, one for each rank of the node and two more."""

    attempt: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone(Message):
    """How a process ended (part of :class:`Happened`)."""

    pid: int
    at: float
    code: int | None = None
    signal: str | None = None
    dumped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened(Message):
    """Something on this node requires a decision."""

    attempt: int
    what: str
    """The value of a :class:`keepstep.supervise.decide.situation.Happened`."""
    rank: int | None = None
    exit: Gone | None = None
    quiet_s: float | None = None
    proven: bool = False
    signal: int | None = None
    """What the agent itself got (INTERRUPTED)."""
    given_up: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel(Message):
    """A piece of a file of the attempt's folder: redacted, compressed, base64."""

    attempt: int
    name: str
    offset: int
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Message):
    """What a node knows about its ranks (part of :class:`Collected`): the fields of a ``Situation`` of that name."""

    steps: int | None = None
    saved: bool | None = None
    resumed: bool | None = None
    lived_s: float = 0.0
    stopped_s: float | None = None
    usual_s: float | None = None
    silence: str | None = None
    """The ``kind`` of the silence."""
    idle_s: float | None = None
    place: str | None = None
    endured_s: float | None = None
    start_s: float | None = None
    work_s: float | None = None
    unsaved_s: float | None = None
    saved_step: int | None = None
    returning: bool = False
    """A worker that was lost comes back alone: others may wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected(Message):
    """The answer to :class:`Collect`: everything has been sent."""

    attempt: int
    known: Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Message):
    """No process of the attempt lives on this node any more, and its last evidence was sent."""

    attempt: int
    left: bool = False
    """Some could not be killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said(Message):
    """What the agent would say on a terminal."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Message):
    """What ranks, host and GPUs of a node showed last, of the readings that limits are about: as JSON."""

    attempt: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Message):
    """The answer to :class:`Look`: packed evidence (`keepstep.check.meeting.packing`), redacted, as JSON."""

    attempt: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed(Message):
    """The answer to :class:`Probe`, as JSON."""

    attempt: int
    number: int
    told: str


# --- from the leader to an agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """The answer to :class:`Hello`."""

    attempt: int = NEVER
    """Starts of this attempt, and of earlier ones, are not meant any more."""
    lease_s: float | None = None
    """How long each answer to a beat lets ranks run; None: as long as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Message):
    """The other answer: this node cannot take part."""

    why: str
    again: bool = False
    """Whether to ask again, there or elsewhere: this process does not lead, or not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Message):
    """The answer to a beat: until a lease after that beat was sent, its ranks may run."""

    number: int
    lease_s: float | None = None
    """How long this lease is; None: as long as the welcome said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Message):
    attempt: int
    ranks: int
    """How many it will start."""
    ports: tuple[int, ...] = ()
    """Take these, as far as they are free: those that the others are known to reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Message):
    """Look at your host with the fast parts of the check, as it would be in this layout."""

    attempt: int
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Message):
    """One step of the tournament between the hosts (`keepstep.check.network.host_part.Duty`), as JSON."""

    attempt: int
    number: int
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Message):
    """Start this node's ranks."""

    attempt: int
    layout: Layout
    variables: tuple[tuple[str, str], ...] = ()
    """What remedies have changed, and nothing else."""
    limits: tuple[tuple[str, int], ...] = ()
    may_start_over: bool = False
    readings: tuple[str, ...] = ()
    """What to measure for the leader, which knows the user's limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect(Message):
    """Send all evidence of the attempt."""

    attempt: int
    stacks: bool = True
    """Take the stacks of all ranks first."""
    long: bool = False
    """... for long enough to see whether they move."""
    anew: bool = False
    """The leader has lost what it had: send all of it, also what was sent before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Message):
    """Leave a suspected stop alone for this long."""

    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Message):
    """End the ranks of the attempt, with this grace period."""

    attempt: int
    what: str
    rank: int | None = None
    signal: int | None = None
    """The signal that the run itself got, if that is why."""
    hurry: bool = False


# --- both ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye(Message):
    """The run is over. An agent gives it back: a connection that only ends may have lost it."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Put(Message):
    """What guards tell each other: keys with their values, each written once."""

    attempt: int
    keys: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Message):
    """Ranks are asked for something, or no longer (`keepstep.supervise.nodes.evidence.requests`)."""

    attempt: int
    name: str
    numbers: tuple[tuple[str, int], ...]


_KINDS = {
    kind.__name__.lower(): kind
    for kind in (
        *(Hello, Beat, Ready, Happened, Parcel, Collected, Ended, Said, Measured, Looked, Probed),
        *(Welcome, Refused, Heard, Prepare, Look, Probe, Start, Collect, Hold, End, Bye, Put, Asked),
    )
}

_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (*_KINDS.values(), Gone, Known, Layout, Seat)
}
_as_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Made once: an idle agent does little but encode beats."""


_STATES = {state.value.encode(): state for state in State}
_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,17}))"
_SECONDS = rb"(null|-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:e-[0-9]{1,3})?)"
_BEAT = re.compile(
    rb'{"kind":"beat","number":%b,"attempt":%b,"state":"([a-z]{1,9})","steps":%b,"quiet_s":%b,"wants_s":%b}\n?'
    % (_NUMBER, _NUMBER, _NUMBER, _SECONDS, _SECONDS)
)
_HEARD = re.compile(rb'{"kind":"heard","number":%b,"lease_s":%b}\n?' % (_NUMBER, _SECONDS))
"""Beats and their answers as :func:`encode` writes them: nearly all messages of a large run are of these two."""


def encode(message: Message) -> bytes:
    """One line of JSON."""
    if type(message) is Heard and message.lease_s is None:
        return b'{"kind":"heard","number":%d,"lease_s":null}\n' % message.number
    found = {"kind": type(message).__name__.lower(), **_plain(message)}
    return _as_json(found).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message. Raises :class:`BadMessage`, and nothing else."""
    if (beat := _BEAT.fullmatch(line)) is not None and (state := _STATES.get(beat[3])) is not None:
        return Beat(
            number=int(beat[1]),
            attempt=int(beat[2]),
            state=state,
            steps=int(beat[4]),
            quiet_s=_seconds(beat[5]),
            wants_s=_seconds(beat[6]),
        )
    if (heard := _HEARD.fullmatch(line)) is not None:
        return Heard(number=int(heard[1]), lease_s=_seconds(heard[2]))
    return _decode_any(line)


def _seconds(text: bytes) -> float | None:
    return None if text == b"null" else float(text)


def _decode_any(line: bytes) -> Message:
    try:
        if len(line) > LARGEST:
            raise ValueError(f"it has {len(line)} bytes")
        found = foreign_json.loads(line)
        if not isinstance(found, dict):
            raise TypeError("it is no object")
        message = build(_KINDS[found.pop("kind")], found)
        assert isinstance(message, Message)
        return message
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise BadMessage(f"a message cannot be read: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    if (names := _FIELDS.get(type(value))) is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
