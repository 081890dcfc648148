# SPDX-License-Identifier: Apache-2.0
"""What a scenario between nodes is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.nodes.trial import Trial


@dataclass(frozen=True, kw_only=True)
class NodeScenario:
    """A run of `keepstep run --nodes ... --meet` on several machines, and one fault."""

    name: str
    note: str
    """What happens, in a sentence or two."""
    act: Callable[[Trial], None]
    """Strikes once the ranks of attempt 0 run, and waits until what must follow has followed."""
    before: Callable[[Trial], None] | None = None
    """Prepares the machines."""
    nodes: str = "2"
    machines: int = 2
    per_node: int = 1

    cause: str | None = None
    """What must be reported about attempt 0; None: nothing, the run is healthy."""
    host: str = ""
    """The machine that the report must name."""
    ranks: tuple[int, ...] = ()
    """Those that it may blame."""
    also: tuple[str, ...] = ()
    """Rules that must have found something besides."""
    attempts: int = 2
    """How many must have run. Never two at once."""
    statuses: tuple[int | None, ...] = (0, 0)
    """Of the agents, in the order of their start; None: the fault killed it."""
    says: tuple[tuple[int, str], ...] = ()
    """Agents, and what they must have said."""
    named: str = ""
    """What the leader must say within 3 s after the fault."""
    folder: bool = True
    """Whether the leader's run folder must tell the same as its terminal."""
    quick: bool = False
    """Run for real by `make test`."""


@dataclass
class NodeOutcome:
    """What came of it."""

    scenario: str
    wrong: list[str] = field(default_factory=list)
    """Sentences; none: all as it must be."""
    skipped: str = ""
    cause: str | None = None
    title: str = ""
    named_s: float | None = None
    """From the fault until the leader has named it."""
    back_s: float | None = None
    """From the fault until all ranks of the next attempt ran."""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return not self.wrong and not self.skipped
