# SPDX-License-Identifier: Apache-2.0
"""Libraries, versions, drivers, instruction sets."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryMissing(Fact):
    """A shared library could not be loaded. ``fatal``: the loader or import failed because of it."""

    name: str | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLibrariesMissing(Fact):
    """TensorFlow found GPUs but not all libraries it needs for them; it continues without the GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolMissing(Fact):
    """A library lacks a symbol or symbol version that another needs, or was built for another ABI."""

    symbol: str | None = None
    library: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuInstructionMissing(Fact):
    """The binary uses instructions that this CPU lacks."""

    detail: str | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaMismatch(Fact):
    """Driver, CUDA runtime, cuDNN, NCCL, compute capability and framework do not fit each other."""

    what: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSeen(Fact):
    """A component printed its version."""

    component: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionConflict(Fact):
    """Two processes or hosts have different versions of what must agree; both, if given.

    Not ``certain``: no versions were compared, but what came from the other side could not be read.
    """

    component: str | None = None
    here: str | None = None
    there: str | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedCombination(Fact):
    """The framework says, or is known, not to support what was combined."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalFault(Fact):
    """The framework says that it is itself at fault (internal error, "this is a bug", INTERNAL ASSERT)."""

    what: str
