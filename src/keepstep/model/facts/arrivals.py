# SPDX-License-Identifier: Apache-2.0
"""What a rank knew about the others while it waited for them to form a world. Written by keepstep.guard."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksArriving(Fact):
    """A rank waits for the others where the framework makes them meet."""

    framework: str
    size: int
    """The world size that this rank was given."""
    index: int | None
    at: str
    """``host:port``, or a file."""
    seconds: float
    arrived: tuple[int, ...] = ()
    """Ranks that wait at the same place on this host, including this one."""
    missing: tuple[int, ...] = ()
    here: bool = False
    """Whether all ranks are on this host, so the missing ones are known."""
    answers: bool | None = None
    """Whether a process listens at ``at``; None if not tested."""
    twice: tuple[int, ...] = ()
    """Processes on this host that were given the same rank, including this one."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Ranks that were given another world size than this one, and that size."""
    elsewhere: tuple[str, ...] = ()
    """Where other processes of the same program wait instead, in words."""
    starting: int = 0
    """Live processes of the same program that have not arrived yet."""
