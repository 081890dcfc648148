# SPDX-License-Identifier: Apache-2.0
"""Hardware, accelerators, schedulers, clusters."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFault(Fact):
    """A GPU reported a fault of its own (Xid, ECC, fallen off the bus, launch failure).

    ``hardware``: the device or driver itself says so; False if a program's own error (illegal address, assert) gives
    the same message.
    """

    what: str
    xid: int | None = None
    device: str | None = None
    hardware: bool = True
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAccessFault(Fact):
    """NVLink, PCIe or peer-to-peer access between devices failed."""

    what: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuUnhealthy(Fact):
    """A TPU or its runtime reported ill health, maintenance or loss of the slice."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuBusy(Fact):
    """The TPU is held by another process."""

    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuInitFailed(Fact):
    """The TPU system could not be set up."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NicFault(Fact):
    """A network card lost its link or reported errors."""

    what: str
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFault(Fact):
    """The machine reported a memory, CPU, power or kernel fault (EDAC, MCE, panic, NotReady)."""

    what: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted(Fact):
    """A scheduler or cloud took the machine or job away, or its time was up."""

    by: str
    reason: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRestarted(Fact):
    """A member came back as a new process while the others still knew the old one."""

    member: str | None = None
    sure: bool = True
    """False if a member that was never reached gives the same message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServerLost(Fact):
    """A parameter server was lost. ``how``: the message of the lost connection."""

    member: str | None = None
    how: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServerAsked(Fact):
    """The coordinator asked a parameter server. ``answer_s``: how long it took to answer; None if it did not."""

    number: int
    answer_s: float | None = None
    checkpoint_age_s: float | None = None
    """How old the last checkpoint was then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureMatched(Fact):
    """A user's own signature matched (see docs/your-own-rules.md)."""

    name: str
    groups: tuple[tuple[str, str], ...] = ()
