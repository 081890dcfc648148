# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a run are: nodes, processes and devices, and how a rank is known."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen(Fact):
    """What a launcher or script says about the nodes of the run, or about its own."""

    index: int | None = None
    """The number of the node that the line was printed on."""
    count: int | None = None
    per_node: int | None = None
    """How many ranks a node has."""
    devices: int | None = None
    """How many devices a node has: as many as ranks, if each rank has one."""
    first: int | None = None
    """The first rank of the node that the line was printed on."""
    hosts: tuple[str, ...] = ()
    """All hosts, in the order of their ranks."""
    firsts: tuple[int, ...] = ()
    """The first rank of each host, if the launcher says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksOnHost(Fact):
    """A host of a run on several, according to the agent that leads it."""

    host: str
    ranks: tuple[int, ...] = ()
    serving: tuple[int, ...] = ()
    """Of them, those that serve others and never end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlaced(Fact):
    """A line that ties a rank (``rank``), or the rank on its node (``local``), to a process or a device."""

    node: str | None = None
    node_index: int | None = None
    local: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankKnownBy(Fact):
    """How a rank that no line states was found. Without ``rank``: what is known of the process instead."""

    how: str
