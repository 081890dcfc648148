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
