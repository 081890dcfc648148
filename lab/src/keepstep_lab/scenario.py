# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: a job, a fault, how it is launched, and what keepstep must say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FRAMEWORKS = ("tensorflow", "torch", "jax")


@dataclass(frozen=True)
class Scenario:
    """One fault on one job. ``cause`` and ``root_ranks`` say what can be known from outside, no more."""

    name: str
    framework: str
    job: str
    """A module of ``keepstep_lab.jobs``."""
    note: str
    """What happens, in a sentence or two."""

    cause: str | None = None
    """What keepstep must say; None: nothing, the run is healthy."""
    also_accept: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    """What ended an earlier life of the run; it may be reported besides, as what contributed."""
    root_ranks: tuple[int, ...] | None = None
    """The ranks it may blame; None: the traces do not show it."""
    inside_ranks: tuple[int, ...] | None = None
    """The ranks it may blame where the guard ran, if that shows more than the traces."""
    later: str | None = None
    """``guard``, ``run`` or ``check``: the capability that will find it. Until then nothing false may be said."""

    fault: str | None = None
    """A fault of ``keepstep_lab.faults``."""
    strike_ranks: tuple[int, ...] | None = None
    strike_step: int = 0
    mark: str = "step 40"
    """The log text that a fault from outside waits for."""
    hang: bool = False
    """Judged by `keepstep why --live` while it runs, ``settle`` seconds after the fault struck."""
    settle: float = 4.0

    ranks: int = 2
    hosts: int = 0
    """Machines of their own (network namespaces) that the ranks are spread over; 0: all on the loopback."""
    launcher: str = "plain"
    """``plain``, ``shell``, ``torchrun`` (one log file per rank), ``torchrun-tee`` (one terminal), ``home`` (a launcher
    of one's own) or ``home-watchdog`` (which ends the run when it is silent)."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    """Resource limits of every rank, by their names in the module ``resource``."""
    roles: tuple[str, ...] = ()
    """TensorFlow's task types, one rank each; all workers when empty."""
    clocks: tuple[str, ...] = ()
    """How far each rank's clock is off: seconds (``+41``) or a time zone (``Asia/Tokyo``); ranks beyond take turns."""
    checkpoint: str = "last.pt"
    limit: float = 90.0
    """Seconds after which what still runs is ended."""
    grace: float | None = None
    """Seconds that the others are given when a rank has failed, as by a launcher that ends them; None: no launcher
    does."""

    needs: tuple[str, ...] = ()
    """``root``, ``cgroup``, ``cuda``: what the machine must have. Hosts always need root."""
    quick: bool = False
    """Run for real by `make test`."""

    @property
    def healthy(self) -> bool:
        return self.cause is None

    @property
    def accepted(self) -> frozenset[str]:
        return frozenset({self.cause, *self.also_accept} - {None})  # type: ignore[arg-type]

    @property
    def struck(self) -> int:
        """The first rank that the fault strikes; rank 1 by default."""
        return self.strike_ranks[0] if self.strike_ranks else 1
