# SPDX-License-Identifier: Apache-2.0
"""Accelerators: what a job asked for, and what its processes use."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCpu(Fact):
    """A framework says that it uses no accelerator. Every machine without one prints this too."""

    framework: str | None = None
    why: str
    kind: str = "GPU"
    present: bool = False
    """Whether it also says, or shows, that the machine has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorAsked(Fact):
    """A command, a variable or a setting asks for accelerators. Not ``wanted``: it asks for the CPU."""

    how: str
    wanted: bool = True
    per_node: int | None = None
    """How many on each node, if it says so."""
    chosen: int | None = None
    """How many of those that are there, if it lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorUsed(Fact):
    """A process names the accelerator that it uses."""

    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesLeft(Fact):
    """A trainer says that it leaves accelerators of this machine unused, or the guard saw that a rank does."""

    what: str
    used: int | None = None
    there: int | None = None
    """How many of its devices a rank uses, and how many it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksPerNode(Fact):
    """How many ranks a launcher starts on each node, one per device."""

    count: int
