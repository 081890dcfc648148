# SPDX-License-Identifier: Apache-2.0
"""The training itself: progress, phases, numbers, checkpoints, programs."""

from __future__ import annotations

from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


class Phase(Enum):
    """What a rank was doing."""

    LOADING = "loading data or model"
    COMPILING = "compiling"
    EVALUATING = "evaluating"
    SAVING = "saving a checkpoint"
    RESTORING = "restoring a checkpoint"
    STOPPING_EARLY = "stopping early"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen(Fact):
    """A rank printed progress: a step, batch or progress bar."""

    step: int | None = None
    of: int | None = None
    loss: float | None = None
    waiting: float | None = None
    """The share of the step spent waiting for its batch, if both are printed."""
    seconds: float | None = None
    """How long the step took."""
    own: float | None = None
    """How long this rank itself worked (its batch and its forward pass), if the parts are printed."""
    exchanging: float | None = None
    """The share of the step spent on communication, if both are printed."""
    rate: float | None = None
    """Images, samples, tokens or steps per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSeen(Fact):
    """A rank said what it was doing."""

    phase: Phase
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnded(Fact):
    """The last lines of one stream of output, and its size."""

    last: str
    above: tuple[str, ...] = ()
    """The few lines above the last one that its program wrote, in order."""
    lines: int | None = None
    finished: str | None = None
    """The line near the end in which the program says that it has finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOwnLine(Fact):
    """The last line of a stream that its program wrote, where others wrote below it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite(Fact):
    """A loss, gradient or tensor was NaN or infinite. ``fatal``: training stopped for it."""

    what: str | None = None
    step: int | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSkipped(Fact):
    """Optimizer steps were skipped because gradients overflowed, by what the loss scaler or the trainer prints.

    ``scale``: the loss scale after one such step. ``skipped``: how many, of all up to ``step``, or since the last line
    where ``recent``.
    """

    scale: float | None = None
    skipped: int | None = None
    step: int | None = None
    recent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau(Fact):
    """A metric stopped changing when the run expected it to."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOdd(Fact):
    """Replicas that must hold the same numbers differ in their bits, as the guards found out while they trained."""

    ranks: tuple[int, ...] = ()
    """The odd ones; where no majority agrees, all that hold a replica..."""
    devices: tuple[str, ...] = ()
    """... or, of replicas in one process, their devices."""
    replicas: int = 2
    majority: bool = False
    tensor: str
    """The first one that differs."""
    tensors: int = 1
    of: int | None = None
    step: int
    agreed: int | None = None
    """The last step at which they were equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddOfTwo(Fact):
    """Two replicas differed, and both ranks repeated their next steps to learn which one is wrong."""

    ranks: tuple[int, ...] = ()
    """The wrong one; none where it is not established."""
    of: tuple[int, ...]
    """The two."""
    tensor: str
    step: int
    """At which they were seen to differ."""
    sure: bool = False
    why: str
    """What shows it, or why nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasNotFinite(Fact):
    """Most tensors are NaN or infinite in all replicas alike: an exchange had spread it when the guards looked."""

    replicas: int = 2
    tensor: str
    """The first one."""
    tensors: int = 1
    of: int | None = None
    step: int
    finite_at: int
    """The last look before, at which most tensors were finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedOdd(Fact):
    """In a buddy step, from the same input and weights, a rank computed other numbers than another one."""

    ranks: tuple[int, ...] = ()
    """The odd one; both, where nobody could say which."""
    others: tuple[int, ...] = ()
    """Those that agreed with each other."""
    tensor: str
    """What differs first, in the order of the computation: the result of a layer, or the gradient of a parameter."""
    tensors: int = 1
    of: int | None = None
    step: int
    agreed: int | None = None
    """The last step at which the odd one agreed with another."""
    again: bool = False
    """It was odd again when it repeated the computation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftItsPast(Fact):
    """The loss rose from one look to the next and stays up, and a layer shows values that it did not show before."""

    after_step: int
    """The last look at which all was as before."""
    step: int
    loss: float
    loss_before: tuple[float, float]
    layer: str
    what: str
    """Its gradient norm, or its update for its weights."""
    value: float
    value_before: tuple[float, float]
    returned: bool = False
    """The loss is again what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnreadable(Fact):
    """A checkpoint is missing, truncated or not what it says."""

    path: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Fact):
    """A checkpoint was saved and recorded in the ledger."""

    path: str
    step: int
    size: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamaged(Fact):
    """A checkpoint is not what was saved, by its record. ``certain``: nobody wrote to it since.

    ``loaded``: a rank was about to read it. ``state``: damaged, incomplete, suspect, changed or partial.
    """

    path: str
    why: str
    step: int | None = None
    certain: bool = True
    loaded: bool = True
    state: str = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMismatch(Fact):
    """A checkpoint holds other names, shapes or objects than the model."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOfOtherDevice(Fact):
    """Tensors of a checkpoint were saved on a device whose number this host does not have."""

    kind: str
    number: int
    here: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStorage(Fact):
    """A read or write took so long that a program complained."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTooLarge(Fact):
    """A graph, message or attribute is larger than its encoding allows."""

    size: str | None = None
    what: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTooLarge(Fact):
    """A compiler refused a program for a limit of its own (instructions, arguments, registers, time)."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiling(Fact):
    """A function is traced or compiled again and again."""

    function: str | None = None
    count: int | None = None
    reason: str | None = None
    seconds: float | None = None
    """How long one compilation took, if each is reported, including the first."""
    storm: bool = False
    """Whether the program that counts says it continues, step after step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness(Fact):
    """The run says that something is slow. ``what``: straggler, input or network."""

    what: str
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(Fact):
    """How much a run did per second, over this many devices together or on ``each`` of them."""

    rate: float
    devices: int = 0
    """0: as many as were named last."""
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesNamed(Fact):
    """A benchmark is about to run over this many devices."""

    count: int
