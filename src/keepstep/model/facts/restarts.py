# SPDX-License-Identifier: Apache-2.0
"""That a run was started again, in the same log or in another one."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeBegan(Fact):
    """A launcher, a script or the program itself says that it starts. Every life of a run says so."""

    by: str
    restarts: int | None = None
    """How many times it had been restarted before."""
    attempt: int | None = None
    """Which attempt it is, counted from 0 or from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEnded(Fact):
    """A launcher or scheduler says that it ends the run in order to start it again."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointGiven(Fact):
    """The port that a run was told to meet at."""

    port: int
