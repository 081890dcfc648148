# SPDX-License-Identifier: Apache-2.0
"""What one node contributes to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keepstep.supervise.start.launch import Job
from keepstep.supervise.start.layout import Layout

if TYPE_CHECKING:
    from keepstep.supervise.nodes.lead.leadership import Office

GIVE_UP_S = 90.0
"""An agent that has heard no leader for this long, and has nothing left to run, ends: longer than most network cuts."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What this node contributes."""

    node: int
    host: str
    job: Job
    """What each rank runs here. The leader says which members it has."""
    env: Mapping[str, str]
    spares: bool = True
    grace_s: float = 10.0
    hang_s: float | None = None
    give_up_s: float = GIVE_UP_S
    """How long to look for a leader that is gone; 0: there is only the one connection."""
    office: Office | None = None
    leads: bool = False
    """The leader runs in this process, too."""
    check: bool = False
    """The fast parts of the check will be asked for."""

    def job_in(self, layout: Layout) -> Job:
        """What this node runs in this layout."""
        if not layout.seats:
            return self.job
        mine = tuple(seat.member for seat in layout.seats if seat.node == self.node)
        total = sum(seat.member.trains for seat in layout.seats)
        return replace(self.job, members=mine, total=total, servers=layout.servers)
