# SPDX-License-Identifier: Apache-2.0
"""What a rank knew of the others while it waited for them to form a world. Written by keepstep.guard."""

from __future__ import annotations

from keepstep.core.facts.base import Fact
from keepstep.core.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksArriving(Fact):
    """A rank waits for the others at the place where the framework lets them meet."""

    framework: str
    size: int
    """The world that this rank was told."""
    index: int | None
    at: str
    """``host:port``, or a file."""
    seconds: float
    arrived: tuple[int, ...] = ()
    """Ranks that wait at the same place on this host, this one among them."""
    missing: tuple[int, ...] = ()
    here: bool = False
    """All ranks are on this host, so who is missing is known."""
    answers: bool | None = None
    """Whether somebody listens at ``at``; None where that was not asked."""
    twice: tuple[int, ...] = ()
    """Processes of this host that were given the same rank, this one among them."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Ranks that were told another size of the world than this one, and that size."""
    elsewhere: tuple[str, ...] = ()
    """Where other processes of the same program wait instead, in words."""
    starting: int = 0
    """Processes of the same program that live and have not come yet."""
