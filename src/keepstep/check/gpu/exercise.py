# SPDX-License-Identifier: Apache-2.0
"""What a child does with one device: products, the same computation again, and memory, round after round.

It says everything as it goes, as lines of JSON: what it has found stays known, however it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from keepstep.check.gpu.known_answers import PASS, Known, Pattern, known, patterns

SIZE = {"cuda": 4096, "cpu": 64}
"""Rows and columns of the matrices."""
PIECE = {"cuda": 1 << 26, "cpu": 1 << 16}
"""Words of each piece of memory."""
ON_CPU = 4
"""Pieces that are taken of the host's memory, where the CPU stands in for a device."""
RESERVE = 1 << 31
"""Bytes of a device's memory that are left alone, or a tenth."""
PRODUCTS_SHARE = 0.4
"""Of the time, the share for products; one whole pass over the memory takes what it takes."""
MOST_TIMES, MOST_MORE_S = 2.0, 300.0
"""A pass that takes far longer than was asked for is cut short."""

ABSENT = ("no attribute", "not implemented", "NOT_SUPPORTED", "not support")
"""How frameworks say that they or the device have no such product."""

Say = Callable[..., None]


class Wrong(NamedTuple):
    """What a device got wrong: how many numbers of how many, and the first of them."""

    what: str
    dtype: str
    count: int  # type: ignore[assignment]
    of: int
    place: str
    seen: str
    wanted: str


class Spot(NamedTuple):
    """A word of memory that does not hold what it was given."""

    piece: int
    word: int
    count: int  # type: ignore[assignment]
    seen: int
    wanted: int


class Device(Protocol):
    """One device, through some framework."""

    name: str
    kind: str
    uuid: str | None
    framework: str
    dtypes: list[str]

    def products(self, dtype: str, rows: Known, seconds: float) -> Iterator[Wrong | None]: ...
    def bits(self) -> str: ...
    def free(self) -> int | None: ...
    def take(self, words: int, most: int) -> int: ...
    def fill(self, pattern: Pattern) -> None: ...
    def verify(self, pattern: Pattern) -> Iterator[Spot]: ...


class Exercise:
    """The rounds on one device."""

    def __init__(self, device: Device, kind: str, seconds: float, say: Say) -> None:
        self._device, self._kind, self._say, self._seconds = device, kind, say, seconds
        self._began = time.monotonic()
        self._done: dict[str, Any] = {"products": 0, "dtypes": [], "patterns": 0, "bytes": 0, "rounds": 0}
        self._digest = ""

    def run(self) -> None:
        device = self._device
        self._say("device", name=device.name, kind=device.kind, uuid=device.uuid, framework=device.framework)
        each_s = self._seconds * PRODUCTS_SHARE / PASS / len(device.dtypes)
        while self._left() > 0 or self._done["rounds"] < PASS:
            for dtype in tuple(device.dtypes):
                self._products(dtype, each_s)
            self._repeat()
            if not self._memory():
                return
            self._done["rounds"] += 1
            self._progress("round")
        self._say("end")

    def _left(self) -> float:
        return self._began + self._seconds - time.monotonic()

    def _progress(self, doing: str) -> None:
        self._say("progress", doing=doing, spent_s=time.monotonic() - self._began, **self._done)

    def _products(self, dtype: str, seconds: float) -> None:
        rows = known(dtype, SIZE[self._kind], self._done["rounds"])
        try:
            for wrong in self._device.products(dtype, rows, seconds):
                self._done["products"] += 1
                if wrong is not None:
                    self._say("wrong", **wrong._asdict())
        except (AttributeError, RuntimeError, TypeError) as error:
            if dtype == "float32" or not any(word in str(error) for word in ABSENT):
                raise
            self._device.dtypes.remove(dtype)
            self._say("without", dtype=dtype, why=str(error)[:200])
            return
        if dtype not in self._done["dtypes"]:
            self._done["dtypes"].append(dtype)
        self._progress(f"products in {dtype}")

    def _repeat(self) -> None:
        found = self._device.bits()
        if not self._digest:
            self._digest = found
            self._say("bits", digest=found)
        elif found != self._digest:
            pairs = zip(found.split(), self._digest.split(), strict=True)
            count = sum(now != before for now, before in pairs)
            self._say("wrong", **Wrong("repeat", "", count, len(found.split()), "", found, self._digest)._asdict())

    def _memory(self) -> bool:
        """Whether there was time for all of it."""
        words = PIECE[self._kind]
        if not self._done["bytes"]:
            self._progress("taking memory")
            free = self._device.free()
            most = ON_CPU if free is None else (free - max(RESERVE, free // 10)) // (4 * words)
            self._done["bytes"] = self._device.take(words, max(1, most)) * words * 4
        for pattern in patterns(self._done["rounds"]):
            if self._left() < -max(self._seconds * (MOST_TIMES - 1), MOST_MORE_S):
                self._say("cut")
                return False
            self._device.fill(pattern)
            for spot in self._device.verify(pattern):
                place = f"byte {4 * (spot.piece * words + spot.word):,} of {self._done['bytes']:,}"
                seen, wanted = (f"0x{each & 0xFFFFFFFF:08x}" for each in (spot.seen, spot.wanted))
                self._say("wrong", **Wrong("memory", "", spot.count, words, place, seen, wanted)._asdict())
            self._done["patterns"] += 1
            self._progress("patterns in memory")
        return True
