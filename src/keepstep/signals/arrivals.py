# SPDX-License-Identifier: Apache-2.0
"""Ranks joining a world: which have arrived, which are missing, which contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keepstep.base.wording import duration, listing
from keepstep.base.wording import ranks as say_ranks

MOST_NAMED = 3


@dataclass(frozen=True)
class Arrival:
    """One process, as it announced itself when it began to wait."""

    pid: int
    framework: str
    size: int
    index: int | None
    at: str
    program: str
    """The script and the folder it was started in."""
    session: int = 0
    """The kernel's number of its session: processes that one shell or launcher started share it."""
    here: bool = False
    """Whether its variables or addresses put the whole world on this host."""
    done: bool = False
    """Whether its world has formed."""


@dataclass(frozen=True)
class Meeting:
    """The state of the meeting, seen from ``mine``."""

    mine: Arrival
    arrived: tuple[int, ...]
    missing: tuple[int, ...]
    twice: tuple[int, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    elsewhere: tuple[str, ...] = ()
    speaks: bool = True
    """Whether this is the one of the waiting processes that reports."""

    @property
    def contradicts(self) -> bool:
        """Whether the problem is already certain, so waiting will not help."""
        return bool(self.twice or self.sizes)

    def words(self, seconds: float, *, answers: bool | None = None, starting: int = 0) -> str:
        """One line for a person."""
        mine, after = self.mine, duration(seconds)
        if self.twice:
            pids = listing(str(pid) for pid in self.twice)
            whom = f"processes {pids} on this host both came to {mine.at} as rank {mine.index} of {mine.size}"
            return f"rank {mine.index} was given twice: {whom}"
        if self.sizes:
            others = listing(f"rank {rank} has {size}" for rank, size in self.sizes[:MOST_NAMED])
            own = f"rank {mine.index} has a world size of {mine.size}"
            return f"the ranks at {mine.at} do not agree on how many they are: {own}, {others}"
        there = "" if answers is None else f"; {'the port answers' if answers else 'nothing answers there'}"
        if mine.here:
            verb = "is" if len(self.missing) == 1 else "are"
            text = f"{len(self.arrived)} of {mine.size} ranks arrived after {after}; "
            text += f"{say_ranks(self.missing)} {verb} missing (at {mine.at}{there})"
        else:
            text = f"waiting for the others at {mine.at} for {after}{there}; "
            text += f"{len(self.arrived)} of {mine.size} ranks arrived on this host"
            text += f" ({say_ranks(self.arrived)}), other hosts cannot be seen from here" if self.arrived else ""
        if self.elsewhere:
            text += f"; {listing(self.elsewhere[:MOST_NAMED])}"
        if starting:
            text += f"; {starting} more of the same program {'is' if starting == 1 else 'are'} still starting"
        return text

    def fields(self, seconds: float, *, answers: bool | None = None, starting: int = 0) -> dict[str, Any]:
        """The same, as the fields of :class:`keepstep.model.facts.arrivals.RanksArriving`."""
        mine = self.mine
        return {
            "framework": mine.framework, "size": mine.size, "index": mine.index, "at": mine.at, "here": mine.here,
            "arrived": list(self.arrived), "missing": list(self.missing), "twice": list(self.twice),
            "sizes": [list(each) for each in self.sizes], "elsewhere": list(self.elsewhere),
            "seconds": round(seconds, 1), "answers": answers, "starting": starting,
        }  # fmt: skip


def meeting(mine: Arrival, others: Sequence[Arrival]) -> Meeting:
    """``others``: all live processes on this host, including other jobs'."""
    kin = [each for each in others if each.framework == mine.framework and each.pid != mine.pid]
    same = [each for each in kin if each.at == mine.at]
    waiting = [each for each in same if not each.done]
    arrived = {each.index for each in (mine, *waiting) if each.index is not None}
    twice = [
        each.pid
        for each in same
        if each.index == mine.index is not None and (not each.done or each.session == mine.session)
    ]
    sizes = {(each.index, each.size) for each in waiting if each.size != mine.size and each.index is not None}
    elsewhere = [
        f"process {each.pid} of the same program waits at {each.at} as rank {each.index} of {each.size}"
        for each in kin
        if each.at != mine.at and each.program == mine.program and not each.done
    ]
    first = min((mine, *waiting), key=lambda each: (each.index is None, each.index or 0, each.pid))
    return Meeting(
        mine=mine,
        arrived=tuple(sorted(arrived)),
        missing=tuple(sorted(set(range(mine.size)) - arrived)),
        twice=tuple(sorted((mine.pid, *twice))) if twice else (),
        sizes=tuple(sorted(sizes)),
        elsewhere=tuple(elsewhere),
        speaks=first.pid == mine.pid,
    )
