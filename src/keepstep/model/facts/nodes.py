# SPDX-License-Identifier: Apache-2.0
"""What the leader of a run on several nodes sees of the others."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Fact):
    """The agent of a node fell silent."""

    host: str
    node: int
    ranks: tuple[int, ...] = ()
    closed: bool = False
    """Its connection was closed: the machine answers, but the agent is gone. Else nothing arrives from it any more."""
    why: str | None = None
    """Why its connection ended, in words."""
    here: str | None = None
    """What ended the connection on the leader's own host, in words: the node has no part in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesMissing(Fact):
    """Too few nodes could take part, and nothing was started."""

    why: str
    """In words: who is missing, and what is known about it."""
    refused: bool = False
    """They came, but with another program, version or option than the first one."""
    absent: bool = False
    """A host was reached by ssh, and lacks the keepstep command or the working folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolderLost(Fact):
    """The leader could not write into the run folder any more, and goes on in another one."""

    host: str
    path: str
    error: str
    """What the system says."""
    full: bool = False
    gone: bool = False
    instead: str
    """Where the recording goes on."""
