# SPDX-License-Identifier: Apache-2.0
"""What shows when ranks are held against each other, whatever the words."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMissing(Fact):
    """A message that all ranks but this one printed, near the end."""

    text: str
    printed: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WentOnAlone(Fact):
    """The last lines of this rank, which none of the others printed. It had said nothing of its own before."""

    text: str
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLags(Fact):
    """This rank printed what all ranks print later than the others: each time, or once by very much."""

    text: str
    by_s: float
    rounds: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountsDiffer(Fact):
    """All ranks printed this about their data, with different numbers. ``rank``: the one with the least."""

    text: str
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceChanged(Fact):
    """Steps became much slower in the middle of a stream and stayed so, or again and again.

    ``new``: a message that came only with the slow steps. ``times``: how many slow steps there were among fast ones.
    """

    before_s: float
    after_s: float
    step: int | None = None
    new: str = ""
    times: int | None = None
