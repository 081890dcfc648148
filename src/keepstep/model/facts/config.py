# SPDX-License-Identifier: Apache-2.0
"""What the launcher and the environment say about the run's shape."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class RankVariableMissing(Fact):
    """An environment variable (or argument) that says who this process is was absent."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeConflict(Fact):
    """Two places disagree on how many ranks or devices there are."""

    seen: str | None = None
    expected: str | None = None
    what: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeVariable(Fact):
    """A process printed a variable that says how many of something the run has."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpecInvalid(Fact):
    """A cluster description could not be understood or contradicts itself."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShared(Fact):
    """Two ranks were put on one device, or a device index does not exist."""

    ranks: tuple[int, ...] = ()
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateMember(Fact):
    """Two processes announced themselves as the same rank or task."""

    member: str | None = None
    certain: bool = True
    """False if only the beginnings of their logs say so: they may be of two runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressIsLocal(Fact):
    """A loopback or wildcard address was given to others as the one to reach."""

    address: str | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSeen(Fact):
    """A process says how large the world it formed or joined is, and which rank it has there."""

    size: int | None = None
    index: int | None = None
    role: str | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessesStarted(Fact):
    """How many processes a launcher was asked for, or says it started."""

    count: int
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexExpandedEarly(Fact):
    """A batch script gives every task the index that its own shell has. ``into``: the flag or variable."""

    variable: str
    into: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotScheduled(Fact):
    """A scheduler did not start what was asked for. ``never``: it says that it never can."""

    by: str
    asked: str | None = None
    never: bool = True
