# SPDX-License-Identifier: Apache-2.0
"""The black box of a rank: its format, how to read it, and what it says the rank was doing. Pure.

    header (4096 bytes): magic, sizes, then two slots of JSON (who this is), of which one is valid
    ring: records of 48 bytes, the n-th at place n modulo the capacity

A record carries its number at both ends, so a record that was half written when the process died is skipped. Times are
the process's monotonic clock; the header gives both clocks at one moment.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from keepstep.base import foreign_json
from keepstep.model.identity import MOST_RANKS

Bytes = bytes | memoryview | mmap.mmap

MAGIC = b"KSBOX\x00\x00\x01"
HEADER_SIZE = 4096
HEAD = struct.Struct("<8sIIII")
"""Magic, size of a record, capacity, which slot is valid, spare."""
SLOT_SIZE = 2000
SLOTS = (64, 64 + SLOT_SIZE)
SLOT_HEAD = struct.Struct("<I")
RECORD = struct.Struct("<QQqqIIQ")
"""Number, monotonic nanoseconds, value, extra, kind, spare, number again."""
CAPACITY = 10_800
"""Half a megabyte: some thousand steps."""
MOST_BYTES = 64 << 20


class RecordKind(IntEnum):
    """What a record says, and what its ``value`` and ``extra`` mean."""

    PHASE = 1
    """value: the phase entered; extra: the number of steps done."""
    STEP = 2
    """value: the number of steps done; extra: nanoseconds since the last; spare: LEAN if its phases are missing."""
    PLAN = 3
    """value: the number of the plan entered (its name is in the notes); extra: 1 entered, 0 left."""
    COLLECTIVE = 4
    """value: the sequence number last issued; extra: which group."""
    BEAT = 5
    """The guard's own thread is alive; value: nanoseconds the guard has used so far."""
    EPOCH = 6
    """value: the epoch that begins; extra: how many batches it has, -1 if unknown."""
    HELD = 7
    """value: nanoseconds so far in which the training's thread was ready but did not run; extra: in which it ran;
    spare: how many processes want each core of the host, in hundredths."""
    GOODBYE = 8
    """The process exits by itself; value: its status, as far as it knows; extra: the number of steps done."""


LEAN = 1
LEAN_STEP = RecordKind.STEP | LEAN << 32
"""A step's kind and spare, combined as they are written."""
_OF_THE_GUARD = (RecordKind.BEAT, RecordKind.HELD)
"""Written by the guard's own thread: no sign of progress in the training."""


class BoxPhase(IntEnum):
    START = 0
    COMPILE = 1
    INPUT = 2
    COMPUTE = 3
    CHECKPOINT = 4
    EVALUATION = 5
    END = 6
    """The process is exiting by itself."""
    RETRY = 7

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    BoxPhase.START: "starting",
    BoxPhase.COMPILE: "compiling",
    BoxPhase.INPUT: "waiting for a batch",
    BoxPhase.COMPUTE: "in a step",
    BoxPhase.CHECKPOINT: "saving or restoring a checkpoint",
    BoxPhase.EVALUATION: "evaluating",
    BoxPhase.END: "ending",
    BoxPhase.RETRY: "paused, or waiting to try again",
}


def phase_of(value: int) -> BoxPhase:
    """A phase from a later version: nothing is inferred from it."""
    return BoxPhase(value) if value in _WORDS else BoxPhase.START


class NotABox(ValueError):
    """The bytes are not a black box, or nothing of it is left."""


class Record(NamedTuple):
    number: int
    at: int
    """Monotonic nanoseconds of the process that wrote it."""
    kind: int
    value: int
    extra: int
    spare: int = 0


@dataclass(frozen=True, slots=True)
class BlackBox:
    """A box as read: whose it is, and its remaining records from the oldest."""

    who: dict[str, Any]
    records: tuple[Record, ...]
    damaged: int = 0
    """Places in the ring that should hold a record and hold no whole one."""

    def wall(self, at: int) -> float:
        """A moment of the process as seconds since the epoch."""
        return float(self.who.get("wall", 0.0)) + (at - (self.who.get("monotonic") or 0)) / 1e9


def is_box(head: bytes) -> bool:
    return head.startswith(MAGIC)


def identity(data: Bytes) -> dict[str, Any]:
    """Who wrote a box. Raises :class:`NotABox`."""
    if len(data) < HEADER_SIZE:
        raise NotABox("shorter than a header")
    magic, record_size, capacity, valid, _ = HEAD.unpack_from(data)
    if magic != MAGIC or record_size != RECORD.size or not 0 < capacity <= MOST_BYTES // RECORD.size:
        raise NotABox("not a black box of this version")
    for slot in (SLOTS[valid % 2], SLOTS[(valid + 1) % 2]):
        (length,) = SLOT_HEAD.unpack_from(data, slot)
        if 0 < length <= SLOT_SIZE - SLOT_HEAD.size:
            try:
                who = foreign_json.loads(bytes(data[slot + SLOT_HEAD.size : slot + SLOT_HEAD.size + length]))
            except ValueError:
                continue
            if isinstance(who, dict):
                return {name: value for name, value in who.items() if _may_be(name, value)}
    return {}


_WHOLE = {
    "rank": MOST_RANKS,
    "world": MOST_RANKS + 1,
    "local": MOST_RANKS,
    "attempt": 1 << 31,
    "pid": 1 << 31,
    "started": 1 << 63,
    "monotonic": 1 << 63,
}
"""Which header fields are whole numbers, and their limits."""


def _may_be(name: str, value: Any) -> bool:
    """Whether a header field has the right type: a box may be damaged or forged."""
    if name in _WHOLE:
        return value is None or (type(value) is int and 0 <= value < _WHOLE[name])
    if name == "wall":
        return type(value) in (int, float) and abs(value) < 1e11
    if name == "files":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str | bool)


def read(data: Bytes, most: int | None = None) -> BlackBox:
    """Everything left in a box, or the newest records; damaged ones are skipped. Raises :class:`NotABox`."""
    who = identity(data)
    capacity = HEAD.unpack_from(data)[2]
    places = min(capacity, (len(data) - HEADER_SIZE) // RECORD.size)
    ring = columns(data, places)
    pairs = enumerate(zip(ring.numbers, ring.again, strict=True))
    whole = [place for place, (number, again) in pairs if number and number == again and number % capacity == place]
    whole.sort(key=ring.numbers.__getitem__)
    damaged = (
        capacity
        - places
        + sum(any(field[place] for field in ring) for place in set(range(len(ring.numbers))).difference(whole))
    )
    if most is not None:
        del whole[:-most]
    fields = (ring.numbers, ring.at, ring.kinds, ring.values, ring.extras, ring.spare)
    return BlackBox(who, tuple(map(Record, *([field[place] for place in whole] for field in fields))), damaged)


class RecordColumns(NamedTuple):
    """The ring as one list per field, in the order of its places, up to the last one ever written."""

    numbers: list[int]
    at: list[int]
    values: list[int]
    extras: list[int]
    kinds: list[int]
    spare: list[int]
    again: list[int]


def columns(data: Bytes, places: int) -> RecordColumns:
    """All places at once: many times faster than one by one."""
    ring = bytes(data[HEADER_SIZE : HEADER_SIZE + places * RECORD.size]).rstrip(b"\0")
    ring += bytes(-len(ring) % RECORD.size)
    view = memoryview(ring)
    whole, signed, half = view.cast("Q"), view.cast("q"), view.cast("I")
    fields = (whole[0::6], whole[1::6], signed[2::6], signed[3::6], half[8::12], half[9::12], whole[5::6])
    return RecordColumns(*(field.tolist() for field in fields))


def newest_first(data: Bytes) -> Iterator[Record]:
    """The records of a live box from the newest back, without reading all of it."""
    capacity = HEAD.unpack_from(data)[2]
    low, high = 0, capacity - 1
    first = _number(data, 0)
    if _number(data, 1) < first and first < capacity:
        low = high = 0
    while low < high:  # numbers rise up to the newest, then are smaller (an older round) or 0
        middle = (low + high + 1) // 2
        if _number(data, middle) >= max(first, 1) and _number(data, middle) >= middle:
            low = middle
        else:
            high = middle - 1
    for back in range(capacity):
        record = _at(data, (low - back) % capacity, capacity)
        if record is not None:
            yield record
        elif back > 2:
            return


def _number(data: Bytes, place: int) -> int:
    return int.from_bytes(data[HEADER_SIZE + place * RECORD.size : HEADER_SIZE + place * RECORD.size + 8], "little")


def _at(data: Bytes, place: int, capacity: int) -> Record | None:
    number, at, value, extra, kind, spare, again = RECORD.unpack_from(data, HEADER_SIZE + place * RECORD.size)
    if number != again or number == 0 or number % capacity != place:
        return None
    return Record(number, at, kind, value, extra, spare)


@dataclass(frozen=True, slots=True)
class Doing:
    """What a rank was doing at the end of its records. Times are monotonic nanoseconds."""

    phase: BoxPhase
    since: int
    """When it entered the phase."""
    last: int
    """Its last sign of progress: any record except the guard's own."""
    steps: int
    last_step: int | None
    """When the last step ended."""
    usual_ns: int | None
    """The median time of its recent steps."""
    collective: int | None
    """The sequence number of its last collective."""
    plan: int | None
    """The plan it had entered and not left."""
    beat: int | None
    """When the guard's thread was last alive."""
    epoch: tuple[int, int] | None = None
    """The epoch that began recently, and how many batches it has (-1: unknown); None if none did."""
    between: bool = False
    """Whether it has compiled, saved or evaluated since its last step: the next one does not begin as usual."""


_PAUSES = (BoxPhase.COMPILE, BoxPhase.CHECKPOINT, BoxPhase.EVALUATION, BoxPhase.RETRY)
RECENT, MOST_OF_THE_GUARD = 96, 1000
"""How many records are read to see what a rank is doing: far more than between two steps, and, in a long hang, of the
guard's own thread."""


def doing(newest: Iterator[Record] | tuple[Record, ...]) -> Doing | None:
    """What a rank is doing, by its records from the newest back; None if there are none."""
    phase = since = last = last_step = collective = plan = beat = None
    steps: int | None = None
    left: set[int] = set()
    plan_known = False
    epoch: tuple[int, int] | None = None
    between = False
    times: list[int] = []
    seen = guards = 0
    for record in newest:
        if seen >= RECENT or guards >= MOST_OF_THE_GUARD:
            break
        if record.kind in _OF_THE_GUARD:
            beat = record.at if beat is None else beat
            guards += 1
            continue
        seen += 1
        last = record.at if last is None else last
        between = between or (last_step is None and record.kind == RecordKind.PHASE and record.value in _PAUSES)
        if record.kind == RecordKind.PHASE and phase is None:
            phase, since = phase_of(record.value), record.at
            steps = record.extra if steps is None else steps
        elif record.kind == RecordKind.STEP:
            steps = record.value if steps is None else steps
            last_step = record.at if last_step is None else last_step
            if record.extra > 0 and len(times) < 32:
                times.append(record.extra)
        elif record.kind == RecordKind.COLLECTIVE and collective is None:
            collective = record.value
        elif record.kind == RecordKind.EPOCH and epoch is None:
            epoch = (record.value, record.extra)
        elif record.kind == RecordKind.PLAN and not plan_known:
            if record.extra == 0:
                left.add(record.value)
            elif record.value in left:
                left.discard(record.value)
            else:
                plan, plan_known = record.value, True
    if last is None:
        return None
    if last_step is not None and (phase is None or (phase is BoxPhase.START and (since or 0) <= last_step)):
        phase, since = (
            BoxPhase.COMPUTE,
            last_step,
        )  # it has stepped since: without phases it counts as between two steps
    return Doing(
        phase=BoxPhase.START if phase is None else phase,
        since=last if since is None else since,
        last=last,
        steps=steps or 0,
        last_step=last_step,
        usual_ns=_median(times) if times else None,
        collective=collective,
        plan=plan,
        beat=beat,
        epoch=epoch,
        between=between,
    )


def _median(times: list[int]) -> int:
    """As ``statistics`` has it, which takes longer to load than to be used here."""
    ordered, middle = sorted(times), len(times) // 2
    return ordered[middle] if len(times) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
