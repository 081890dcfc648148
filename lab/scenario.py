"""What one recording is: a job, a fault, how it is launched, and what really happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scenario:
    """One named recording. `cause` and `root_ranks` say what a reader of its logs can know, no more."""

    name: str
    framework: str
    job: str
    note: str
    cause: str | None = None
    root_ranks: tuple[int, ...] | None = None
    also_accept: tuple[str, ...] = ()
    fault: str | None = None
    strike_ranks: tuple[int, ...] | None = None
    strike_step: int = 0
    ranks: int = 2
    launcher: str = "plain"  # plain | shell | torchrun | torchrun-tee
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    mark: str = "step 40"  # the log text that an outside fault waits for
    checkpoint: str = "last.pt"
    limit: float = 90.0

    @property
    def struck(self) -> int:
        """The first rank that the fault strikes; rank 1 unless told otherwise."""
        return self.strike_ranks[0] if self.strike_ranks else 1
