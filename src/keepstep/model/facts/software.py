# SPDX-License-Identifier: Apache-2.0
"""The software of a process and its host as a whole, to compare processes."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareSeen(Fact):
    """What a process would run with. Pairs are name and value, sorted by name."""

    host: str
    packages: Pairs = ()
    """Distributions and their versions."""
    places: Pairs = ()
    """Where the frameworks would be imported from."""
    system: Pairs = ()
    """Python, glibc, kernel, driver, CUDA, CPU."""
    cpu_flags: tuple[str, ...] = ()
    """The instruction sets this CPU has, of those that frameworks are built for."""
    variables: Pairs = ()
    script: str | None = None
    script_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCalls(Fact):
    """What the training script visibly uses."""

    script: str
    strategies: tuple[str, ...] = ()
    fits: bool = False
    """Whether it calls a model's ``fit``."""
    faulthandler: bool = False
    """Whether it makes Python print its stack when it crashes."""
    loader_workers: int | None = None
