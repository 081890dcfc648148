# SPDX-License-Identifier: Apache-2.0
"""What guards report during the run that settles it: ranks that fail and do not exit, or are proven to differ."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import open_regular
from keepstep.guard.ending.uncaught import SUFFIX as LAST_WORDS
from keepstep.model.codec import build
from keepstep.model.facts.resource import DeviceMemoryHeld
from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.watch.hang_detector import WORKS_BYTES, WORKS_SHARE, Sign

NAME = re.compile(r"(?:rank\d+|unranked)-(?P<pid>\d+)-\d+\.notes\.jsonl")
ENDS_A_RANK = ("uncaught", "leaving")
FACTS = (*('"RankRaised"', '"ContractBroken"', '"RankEnded"', '"RanksArriving"', '"WorldFormed"'), '"DeviceMemoryHeld"')
LEAST_S = 0.75
"""A rank that has raised gets this long to exit by itself; then this long without work means that it is blocked."""
QUIET_S, USUAL_STEPS = 1.5, 3.0
"""Ranks that are proven to differ have stopped if none has stepped for this long."""
STEPPING = (BoxPhase.COMPUTE, BoxPhase.INPUT)
MOST_AT_ONCE = 1 << 20
TAIL = 256 << 10


@dataclass
class Raised:
    """A rank that raised an uncaught exception, or exits with a status other than 0."""

    pid: int
    rank: int | None
    at: float
    """When this was read, by the monotonic clock."""
    base: Sign | None = None
    """From which its work is counted."""


@dataclass
class GuardReports:
    """``read`` now and then; then ask."""

    folder: Path
    grace_s: float = 10.0
    """For a rank that raised and is still at work, such as saving what it has."""
    _read: dict[str, int] = field(default_factory=dict)
    _raised: dict[int, Raised] = field(default_factory=dict)
    _settled: set[int] = field(default_factory=set)
    _differ: bool = False
    _waiting: dict[str, tuple[str, int | None, int]] = field(default_factory=dict)
    """Which ranks wait for the others at their start, by their notes: where, as which rank, and of how many."""
    _contradict: bool = False
    held: dict[int, DeviceMemoryHeld] = field(default_factory=dict)
    """What tensors held of each rank's device, by the newest note; of a program alone, as rank 0."""

    def read(self, now: float) -> None:
        """What has been written since the last time."""
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*.notes.jsonl"):
                for line in self._lines(path):
                    self._take(path.name, line, now)

    def blocked(self, signs: Iterable[Sign], now: float) -> Raised | None:
        """A rank that raised, has not exited, and is idle or has used up its grace period. Each is reported once."""
        by_pid = {sign.pid: sign for sign in signs}
        for each in self._raised.values():
            sign = by_pid.get(each.pid)
            if sign is None or each.pid in self._settled:
                continue
            base, each.base = each.base, each.base or sign
            if base is None or (now - base.at < LEAST_S and now - each.at < self.grace_s):
                continue
            if now - each.at >= self.grace_s or not _works(base, sign):
                self._settled.add(each.pid)
                return each
            each.base = sign
        return None

    def stopped_by_difference(self, signs: list[Sign], now: float) -> bool:
        """Ranks are certain to do different things, and none of them steps any more. Reported once."""
        if (
            not self._differ
            or self._raised
            or not signs
            or any(sign.phase not in STEPPING or sign.progress is None for sign in signs)
        ):
            return False
        usual = max((sign.usual_s or 0.0 for sign in signs), default=0.0)
        if now - max(sign.progress or 0.0 for sign in signs) < max(QUIET_S, USUAL_STEPS * usual):
            return False
        self._differ = False
        return True

    def never_meet(self, started: int) -> bool:
        """Whether ``started`` ranks that wait for each other at their start wait in vain for certain. Reported once.

        They were given the same number or different sizes at one place, or are the ranks of one world and wait at
        different places. Those that wait for more than were started prove nothing: a script may start more itself.
        """
        if not self._waiting:
            return False
        places, ranks, sizes = zip(*self._waiting.values(), strict=True)
        apart = len(set(places)) > 1 and len(set(ranks)) == len(ranks) and set(sizes) == {started}
        if not (self._contradict or apart):
            return False
        self._waiting.clear()
        self._contradict = False
        return True

    def _lines(self, path: Path) -> list[str]:
        done = self._read.get(path.name, 0)
        if path.stat().st_size <= done:
            return []
        with open_regular(path, follow=False) as stream:
            stream.seek(done)
            data = stream.read(MOST_AT_ONCE)
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == MOST_AT_ONCE else 0)
        self._read[path.name] = done + whole
        return [
            line for line in data[:whole].decode(errors="replace").split("\n") if any(fact in line for fact in FACTS)
        ]

    def _take(self, name: str, line: str, now: float) -> None:
        try:
            note: dict[str, Any] = json.loads(line)
            fields = note["fields"]
            if note["fact"] == "WorldFormed":
                self._waiting.pop(name, None)
            elif note["fact"] == "RanksArriving":
                self._waiting[name] = str(fields["at"]), fields.get("index"), int(fields["size"])
                self._contradict = self._contradict or bool(fields.get("twice") or fields.get("sizes"))
            elif note["fact"] == "DeviceMemoryHeld":
                self.held[note.get("rank", {}).get("index", 0)] = build(DeviceMemoryHeld, fields)
            elif note["fact"] == "ContractBroken":
                self._differ = self._differ or fields.get("certain") is True
            elif _ends_badly(note["fact"], fields) and (found := NAME.fullmatch(name)) is not None:
                rank = note.get("rank", {}).get("index")
                self._raised.setdefault(
                    int(found["pid"]), Raised(int(found["pid"]), rank if isinstance(rank, int) else None, now)
                )
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return


def _ends_badly(fact: str, fields: dict[str, Any]) -> bool:
    """Whether the rank is exiting with an error: it may still wait for the others, in a barrier at the exit."""
    if fact == "RankEnded":
        return bool(fields.get("status"))
    return fact == "RankRaised" and fields.get("how") in ENDS_A_RANK


def _works(then: Sign, now: Sign) -> bool:
    """Whether a rank did anything in between, or is in the middle of a checkpoint."""
    passed = max(now.at - then.at, 1e-3)
    share, moved = (now.cpu_s - then.cpu_s) / passed, (now.transferred - then.transferred) / passed
    return (then.runs and now.runs) or now.phase is BoxPhase.CHECKPOINT or share > WORKS_SHARE or moved > WORKS_BYTES


def forget_repeated(folder: Path, guard: Path) -> None:
    """Remove last words that the output of the attempt in ``folder`` holds as well."""
    for path in guard.glob(f"*{LAST_WORDS}"):
        with contextlib.suppress(OSError):
            with open_regular(path, follow=False) as stream:
                lines = stream.read(MOST_AT_ONCE).decode(errors="replace").strip().splitlines()
            if lines and any(_ends_with(log, lines[-1]) for log in folder.glob("*.log")):
                path.unlink()


def _ends_with(log: Path, line: str) -> bool:
    with open_regular(log, follow=False) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
        return line in stream.read().decode(errors="replace")
