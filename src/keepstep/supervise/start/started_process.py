# SPDX-License-Identifier: Apache-2.0
"""One process that the supervisor starts."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass

GIVEN = ("launcher", "command")
"""Roles of the user's own command: a known launcher, or anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedProcess:
    """One process to start. ``rank`` is None for the user's own command: a launcher, or a program that trains alone."""

    rank: int | None
    role: str = "worker"
    index: int = 0
    program: str = ""
    """What people call it if it is not a rank: torchrun, train.py."""

    @property
    def name(self) -> str:
        """What its log is called."""
        return f"rank{self.rank}" if self.rank is not None else self.role

    @property
    def key(self) -> str:
        """What it is called in measurements."""
        return str(self.rank) if self.rank is not None else self.role

    @property
    def words(self) -> str:
        """What it is called in a sentence."""
        return f"rank {self.rank}" if self.rank is not None else self.program or f"the {self.role}"

    @property
    def trains(self) -> bool:
        return self.role in ("chief", "worker", *GIVEN)

    def ends_training(self, *, served: bool) -> bool:
        """Whether the training goes on until it ends. ``served``: by parameter servers; only the chief counts then."""
        return self.role == "chief" if served else self.trains
