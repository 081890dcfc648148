# SPDX-License-Identifier: Apache-2.0
"""What the guard sees from inside a training process. Written by keepstep.guard as JSON lines, read back by their names."""

from __future__ import annotations

from keepstep.core.facts.base import Fact
from keepstep.core.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDoing(Fact):
    """What a rank did last, by its black box."""

    phase: str
    """``start``, ``compile``, ``input``, ``compute``, ``checkpoint``, ``evaluation`` or ``end``."""
    steps: int
    in_phase_s: float | None = None
    """How long it had been in the phase when it was last seen alive (or now, of a living one)."""
    silent_s: float | None = None
    """How long nothing but the guard's own thread had moved."""
    usual_step_s: float | None = None
    plan: str | None = None
    collective: int | None = None
    alive: bool | None = None
    pid: int | None = None
    input_s: float | None = None
    """The usual wait for a batch."""
    world: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnded(Fact):
    """A rank's process is gone. ``goodbye``: it said so itself when it left; else its black box simply ends."""

    goodbye: bool
    steps: int = 0
    status: int | None = None
    """What it left with, as far as it knew."""
    raised: str | None = None
    """The type of the exception that ended it."""
    phase: str | None = None
    """What it did before."""
    pid: int | None = None
    killed_as: str | None = None
    """A parameter server, a Ray worker...: somebody else ends it when the work is done."""
    in_training: bool = False
    """The work of such a process was known not to be done."""
    world: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractStated(Fact):
    """What one rank says of something on which all must agree: ``subject`` and the how-manieth of its kind."""

    subject: str
    ordinal: int
    stated: tuple[tuple[str, str], ...]
    certain: bool = False
    """A difference surely hangs or spoils the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractBroken(Fact):
    """Ranks stated different things. ``values``: each value with the ranks that stated it."""

    subject: str
    ordinal: int
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    certain: bool = False
    before: bool = False
    """Found before the step ran."""
    odd: tuple[int, ...] = ()
    """The ranks that left what all had done, where that is known; else it goes by the majority."""
    places: tuple[tuple[int, str], ...] = ()
    """The line of the script, by rank, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSilent(Fact):
    """Ranks that did not state their side of a contract within the wait."""

    subject: str
    ordinal: int
    missing: tuple[int, ...]
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFormed(Fact):
    """The world that the framework really formed, beside the one that the launcher meant."""

    size: int
    index: int | None = None
    meant: int | None = None
    meant_by: str | None = None
    framework: str | None = None
    at_step: bool = False
    """The rank was already training in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainsApart(Fact):
    """A rank of a world of several took so many steps in which no gradient went from rank to rank."""

    framework: str
    world: int
    steps: int
    scoped: bool = False
    """The strategy made variables: the model is in its scope, but the step is not run by it."""
    over: bool = False
    """It was told before, and gradients are exchanged since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOdd(Fact):
    """A batch that breaks its declared or learned contract. ``kind`` is one of :class:`keepstep.guard.batches.BatchFault`."""

    kind: str
    part: str
    seen: str
    wanted: str
    step: int | None = None
    declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLate(Fact):
    """A rank that takes clearly longer than its peers, or than itself before, and in which phase."""

    phase: str
    seconds: float
    usual_s: float
    against: str
    """``peers`` or ``past``."""
    steps: int | None = None
    """Over how many steps."""
    step_s: float | None = None
    before_s: float | None = None
    """What it took itself before."""
    held: bool = False
    """It waits for a processor: it is ready to run, and not let."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersWait(Fact):
    """Ranks wait in a collective for others that are elsewhere. Of itself no fault: somebody is always the last."""

    waiting: tuple[int, ...]
    late: tuple[int, ...]
    seconds: float
    collective: int | None = None
    where: str | None = None
    """What the first of the late ones does, and at which line."""
    phase: str | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStopped(Fact):
    """A rank made no progress for far longer than is usual for what it does."""

    phase: str
    steps: int
    seconds: float
    usual_s: float | None = None
    proven: bool = False
    """Its stacks did not move either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaised(Fact):
    """An exception in a rank, told by its guard when it was known; the process may still live."""

    type: str
    message: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    """The innermost line of the user's own code."""
    in_framework: bool = False
    """Raised inside of a framework, not by the user's code."""
    how: str = "uncaught"
    """``uncaught``; ``leaving`` where a block that must end first is still at work; else the thread in which it was, which ends no rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPart(Fact):
    """A part of the guard that could not look, or turned itself off."""

    part: str
    why: str
    off: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesIssued(Fact):
    """The last collectives that a rank issued on a group: number, what must be alike on all ranks, words, line of the script."""

    group: str
    issued: tuple[tuple[int, str, str, str], ...]
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNamed(Fact):
    """The name of a plan that the black box knows by its number."""

    number: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverExchanged(Fact):
    """Ranks of one world trained so many steps, and exchanged no gradient."""

    framework: str
    world: int
    steps: int
    parameters: int | None = None
    """How many numbers each of them trains..."""
    exchanged: int | None = None
    """... and how many all collectives together have moved; None: no program of these steps spans more than one rank."""
    own: bool = False
    """By what this rank knows of itself alone: the others were not asked."""
    over: bool = False
    """It was told before, and they have exchanged something since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNotFinite(Fact):
    """The loss became NaN or infinite. ``began``: the ranks where it did first; empty where that is not known."""

    step: int | None = None
    world: int = 1
    began: tuple[int, ...] = ()
    own: bool = False
    """It is the rank's own loss, before anything was exchanged: the rank with the earliest step began it."""
    times: int | None = None
    """In how many steps in a row so far; None: it has stayed so."""
