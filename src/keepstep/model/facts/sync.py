# SPDX-License-Identifier: Apache-2.0
"""Collectives, barriers, replicas: where ranks must agree."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame

_WHOLE = lazy_pattern(r"^0$|default_pg|PG GUID 0$")


def _is_part(group: str | None) -> bool:
    """Whether a watchdog's group, ``2 PG GUID 5(mesh_tp)``, is not the one of all ranks."""
    return group is not None and _WHOLE.search(group) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTimeout(Fact):
    """A rank waited for a collective until its time limit."""

    op: str | None = None
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    group: str | None = None

    @property
    def of_a_part(self) -> bool:
        return _is_part(self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommMember(Fact):
    """A process says which member of a communicator it is (the whole run's, or part of it)."""

    index: int
    size: int
    device: str = ""
    """Where its device is on the host's bus."""
    comm: str = ""
    """The communicator's name, the same on all members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCalled(Fact):
    """A rank hands a collective to its library, which prints what it got."""

    op: str
    number: str
    count: int
    dtype: str
    comm: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveProgress(Fact):
    """How far a rank got: last collective enqueued and completed."""

    last_enqueued: int | None = None
    last_completed: int | None = None
    group: str | None = None

    @property
    def of_a_part(self) -> bool:
        return _is_part(self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutHeardOf(Fact):
    """A rank did not time out itself but learned of another rank's time-out (``of``, if given)."""

    of: int | None = None
    group: str | None = None

    @property
    def of_a_part(self) -> bool:
        return _is_part(self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveMismatch(Fact):
    """Ranks ran different collectives at the same place; both sides, if given."""

    what: str | None = None
    left: str | None = None
    right: str | None = None
    other_rank: int | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCollective(Fact):
    """An entry of a flight-recorder dump: one collective of one rank."""

    group: str
    seq: int
    op: str
    state: str
    sizes: str | None = None
    dtype: str | None = None
    frame: Frame | None = None
    world: int | None = None
    members: tuple[int, ...] = ()
    """The ranks of the group, if the dump lists them."""
    between: tuple[int, int] | None = None
    """Of a send or recv: from and to. ``seq`` then counts what is unfinished between the two, from 1."""
    own_name: bool = False
    """Whether the process named the group for itself: the same name on another rank may be another group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingRecorded(Fact):
    """The flight recorder of a rank has no record: of any collective, or of one that others wait in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendsUnrecorded(Fact):
    """A rank's flight recorder leaves out sends and recvs, and the rank has groups that may be for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpUnreadable(Fact):
    """A rank left a flight-recorder dump that is empty, cut off or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksMissing(Fact):
    """A rank says which others did not arrive (monitored barrier, stall inspector, coordination)."""

    missing: tuple[int, ...]
    waited_s: float | None = None
    what: str | None = None
    final: bool = True
    ended: int | None = None
    """At a barrier that ranks reach as they end: the only one that had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProgress(Fact):
    """A watchdog outside the framework saw no progress, and ended the run or a rank for it."""

    seconds: float | None = None
    """For how long."""
    missing: tuple[int, ...] = ()
    """The ranks that it heard nothing of, if it names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksAtLimit(Fact):
    """The program's own watchdog printed its stacks, because a time limit was reached."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShutDown(Fact):
    """A collective was refused because some rank had left the group (Horovod, XLA, TF executor)."""

    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedParameters(Fact):
    """Parameters got no gradient under a data-parallel wrapper."""

    names: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedReadyTwice(Fact):
    """A gradient was reduced twice in one step (shared or re-entrant checkpointed parameter)."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsDiffer(Fact):
    """Ranks built models whose parameters differ in number or shape."""

    detail: str | None = None
    other_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideScope(Fact):
    """A variable, optimizer or model was made or used outside its strategy's scope."""

    what: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrThread(Fact):
    """A library complained about a fork after start, or about use from several threads. ``fatal``: it refused."""

    what: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasDiffer(Fact):
    """Values that must be equal on all ranks were found to differ."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStateRace(Fact):
    """Several processes changed one file, folder, cache or variable at the same time."""

    what: str
    path: str | None = None
