# SPDX-License-Identifier: Apache-2.0
"""What came of collectives that were tried on purpose, with answers that are known. Written by the check."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.wording import ranks as say_ranks
from keepstep.base.wording import size as say_size
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTried(Fact):
    """One collective, by one process: several rounds, every element compared."""

    framework: str
    backend: str
    operation: str
    dtype: str
    size: int
    """Bytes that each rank gave."""
    groups: int
    members: int
    """Of each group; all groups ran at the same time."""
    pair: tuple[int, ...] = ()
    """The two ranks, where a single pair was tried."""
    medium: str = ""
    """By which kind of link these two reach each other, such as ``ethernet``. Empty: nobody asked."""
    link: str = ""
    """What its ends say of it."""
    gives_bytes_s: float = 0.0
    """What they say that it gives; 0 if they do not."""
    again: bool = False
    """The second time, with no other pair at work."""
    rounds: int
    wrong_rounds: int = 0
    wrong: tuple[tuple[int, int, int, int], ...] = ()
    """Of the first round that was wrong, by rank: the first and the last wrong element, and how many there are."""
    median_s: float
    smallest: tuple[int, ...] = ()
    """The smallest group whose collective was wrong as well, found by leaving ranks out."""

    @property
    def what(self) -> str:
        among = f"{self.members} ranks" if self.groups == 1 else f"{self.groups} groups of {self.members} at once"
        return f"{self.operation} of {say_size(self.size)} {self.dtype}, {among}"

    @property
    def words(self) -> str:
        if self.pair and not self.wrong:
            by = f" by {self.medium}" + (f" ({self.link})" if self.link else "") if self.medium else ""
            rate = f"{say_size(self.size / self.median_s)}/s{by}" + (", alone" if self.again else "")
            return f"{self.what}: {say_ranks(self.pair)} exchanged {rate}"
        if not self.wrong:
            return f"{self.what}: right in {self.rounds} rounds, {self.median_s * 1e3:.3g} ms"
        who = say_ranks(rank for rank, *_ in self.wrong)
        rank, first, last, _ = self.wrong[0]
        where = f"elements {first:,} to {last:,} of rank {rank}"
        return f"{self.what}: wrong in {self.wrong_rounds} of {self.rounds} rounds, on {who} ({where})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesFailed(Fact):
    """A process that tried collectives did not come to its end."""

    framework: str
    rank: int
    during: str
    late_s: float | None = None
    """It was still there after this time."""
    said: str = ""

    @property
    def words(self) -> str:
        how = f"still in it after {self.late_s:.0f} s" if self.late_s is not None else self.said or "the process ended"
        return f"{self.during}: {how}"
