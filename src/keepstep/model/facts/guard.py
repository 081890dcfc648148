# SPDX-License-Identifier: Apache-2.0
"""What the guard sees inside a training process. keepstep.guard writes these as JSON lines, read back by name."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDoing(Fact):
    """What a rank did last, by its black box."""

    phase: str
    """``start``, ``compile``, ``input``, ``compute``, ``checkpoint``, ``evaluation`` or ``end``."""
    steps: int
    in_phase_s: float | None = None
    """How long it had been in the phase when it was last seen alive (or now, if it is alive)."""
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
class SaidLive(Fact):
    """What keepstep told the user while the run was on: the report repeats what no finding says."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLost(Fact):
    """A child of a rank ended while the rank went on, and the rank did not ask how."""

    pid: int
    command: str = ""
    code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnded(Fact):
    """A rank's process ended. ``goodbye``: it said so itself when it exited; else its black box simply ends."""

    goodbye: bool
    steps: int = 0
    status: int | None = None
    """Its exit status, as far as it knew."""
    raised: str | None = None
    """The type of the exception that ended it."""
    place: str | None = None
    """The user's line that called ``sys.exit``: ``train.py:64``."""
    words: str | None = None
    """The text that was given to it."""
    phase: str | None = None
    """What it did before."""
    pid: int | None = None
    killed_as: str | None = None
    """A parameter server, a Ray worker...: another process ends it when the work is done."""
    in_training: bool = False
    """Whether the work of such a process was known to be unfinished."""
    world: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractStated(Fact):
    """What one rank states about something on which all must agree: ``subject``, and its number among its kind."""

    subject: str
    ordinal: int
    stated: tuple[tuple[str, str], ...]
    certain: bool = False
    """Whether a difference is certain to hang or spoil the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractBroken(Fact):
    """Ranks stated different things. ``values``: each value with the ranks that stated it."""

    subject: str
    ordinal: int
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    certain: bool = False
    before: bool = False
    """Whether it was found before the step ran."""
    odd: tuple[int, ...] = ()
    """The ranks that deviated from what all had done, if known; else the majority decides."""
    places: tuple[tuple[int, str], ...] = ()
    """The line of the script, by rank, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSilent(Fact):
    """Ranks that did not state their side of a contract within the wait."""

    subject: str
    ordinal: int
    missing: tuple[int, ...]
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFormed(Fact):
    """The world the framework really formed, and the one the launcher intended."""

    size: int
    index: int | None = None
    meant: int | None = None
    meant_by: str | None = None
    framework: str | None = None
    at_step: bool = False
    """Whether the rank was already training in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainsApart(Fact):
    """A rank in a world of several took this many steps without exchanging gradients."""

    framework: str
    world: int
    steps: int
    scoped: bool = False
    """Whether the strategy made variables: then the model is in its scope, but the strategy does not run the step."""
    over: bool = False
    """Whether it was reported before and gradients have been exchanged since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOdd(Fact):
    """A batch that breaks its declared or learned contract. ``kind``: a `BatchFault` of guard/batches."""

    kind: str
    part: str
    seen: str
    wanted: str
    step: int | None = None
    declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLate(Fact):
    """A rank that takes clearly longer than its peers, or than it did before, and in which phase."""

    phase: str
    seconds: float
    usual_s: float
    against: str
    """``peers`` or ``past``."""
    steps: int | None = None
    """Over how many steps."""
    step_s: float | None = None
    before_s: float | None = None
    """How long it took before."""
    held: bool = False
    """Whether it waits for a processor: ready, but not allowed to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersWait(Fact):
    """Ranks wait in a collective for others that are elsewhere. No fault by itself: one rank is always the last."""

    waiting: tuple[int, ...]
    late: tuple[int, ...]
    seconds: float
    collective: int | None = None
    where: str | None = None
    """What the first of the late ranks is doing, and at which line."""
    phase: str | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStopped(Fact):
    """A rank made no progress for far longer than usual for what it does."""

    phase: str
    steps: int
    seconds: float
    usual_s: float | None = None
    proven: bool = False
    """Whether its stacks did not change either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaised(Fact):
    """An exception in a rank, reported by its guard at once; the process may still be alive."""

    type: str
    message: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    """The innermost line of the user's own code."""
    in_framework: bool = False
    """Whether a framework raised it, not the user's code."""
    how: str = "uncaught"
    """``uncaught``; ``leaving`` if a block that must end first is still running; else the thread's name, which ends
        no rank."""
    batch: str | None = None
    """Where memory ran out: the shapes that the step was fed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPart(Fact):
    """A part of the guard that could not work, or turned itself off."""

    part: str
    why: str
    off: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesIssued(Fact):
    """The last collectives a rank issued on a group: number, what must match on all ranks, description, script line."""

    group: str
    issued: tuple[tuple[int, str, str, str], ...]
    steps: int = 0
    members: tuple[int, ...] = ()
    axis: str = ""
    """What the groups along one axis of a mesh have in common, if it has one."""
    done: int | None = None
    """The last of them that has ended; None: unknown."""
    waits: bool | None = None
    """Whether the rank waits for others, in any group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNamed(Fact):
    """The name of a plan that the black box knows by its number."""

    number: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverExchanged(Fact):
    """Ranks of one world trained for this many steps and exchanged no gradients."""

    framework: str
    world: int
    steps: int
    parameters: int | None = None
    """How many numbers each of them trains..."""
    exchanged: int | None = None
    """... and how many all collectives together moved; None: no program of these steps spans more than one rank."""
    own: bool = False
    """Whether only this rank's own knowledge was used: the others were not asked."""
    over: bool = False
    """Whether it was reported before and they have exchanged something since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstNonFinite(Fact):
    """Where a loss that is not finite came from. ``op`` is None where a parameter or the batch already was not."""

    step: int | None = None
    op: str | None = None
    layer: str | None = None
    """The layer or parameter; None: none is near."""
    own: bool = False
    """Whether the operation is the layer's own, not one after it."""
    sure: bool = True
    batch: str | None = None
    """Kind, shape and hash of what the first layer was fed."""
    line: str | None = None
    """Where the operation is in the program (``train.py:31``)..."""
    no_line: str | None = None
    """... or why computing the loss once more did not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNotFinite(Fact):
    """The loss became NaN or infinite. ``began``: the ranks where it did so first; empty if unknown."""

    step: int | None = None
    world: int = 1
    began: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    """Of the rank that says so, where several replicas train in one process: those whose loss was so first."""
    own: bool = False
    """Whether it is the rank's own loss, before any exchange: then the rank with the earliest step began it."""
    times: int | None = None
    """For how many steps in a row so far; None: it has stayed so."""
