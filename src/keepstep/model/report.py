# SPDX-License-Identifier: Apache-2.0
"""The report: what the engine concludes about a run, and what it could not check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.finding import Finding, Role

SCHEMA = "keepstep.report/1"
OF_A_CLOCK = "the clock of "
"""How the coverage of a clock that differs begins."""


class Verdict(Enum):
    HEALTHY = "healthy"
    FAILED = "failed"
    HUNG = "hung"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCrash:
    """A rule that raised an exception: reported, while the others still run."""

    rule: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """A clock that differs from that of most ranks. The times of its logs were corrected by it.

    Without ``within_s`` only a bound is known: it is at least so far off, and nothing was corrected.
    """

    logs: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    node: str | None = None
    offset_s: float
    """How far it is ahead; negative: behind."""
    within_s: float | None
    """How far the offset may be wrong."""
    events: int
    """How many shared events show it."""
    by: str
    """Those events, in words."""
    against: tuple[int, ...] = ()
    """The ranks whose clocks were taken as right."""
    zone: bool = False
    """Whether it is a difference of time zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEnd:
    """Ranks whose logs end alike: how far they got, and what proves that they ended well."""

    ranks: tuple[int, ...]
    log: str | None = None
    """The log, where it does not say whose it is."""
    proof: str | None = None
    step: int | None = None
    of: int | None = None
    at: float | None = None
    """Their last sign of life."""
    silent_s: float | None = None
    """How long before the last sign of life of any rank that was."""
    usual_s: float | None = None
    """The usual time between their lines about steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth knowing that is no problem: it changes neither verdict nor status."""

    says: str
    command: str | None = None
    """The line to set, if there is one."""
    first: bool = False
    """Whether the rest of the report is right only if this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    crashed: tuple[RuleCrash, ...] = ()
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    alive: tuple[int, ...] = ()
    """Ranks that were still running."""
    ended: tuple[RanksEnd, ...] = ()
    """How the logs of the ranks end, and what proves it."""
    hosts: tuple[tuple[int, str], ...] = ()
    """Each rank with its host, if there are several."""
    story: tuple[str, ...] = ()
    """For a run that was restarted: how each attempt ended."""
    during: tuple[str, ...] = ()
    """What the user was told while the run was on, and no finding says."""
    earlier: tuple[str, ...] = ()
    """Where several runs were given: what the earlier ones say about this failure."""
    clocks: tuple[ClockOffset, ...] = ()
    """The clocks that were found to differ."""
    notes: tuple[Note, ...] = ()
    """What is worth knowing and no problem."""

    @property
    def root(self) -> Finding | None:
        """The finding that began it, if any."""
        return self.findings[0] if self.findings else None

    def hosts_of(self, finding: Finding) -> dict[int, str]:
        """Each rank with its host at the time of a finding: in another attempt, a rank may have been elsewhere."""
        found = dict(self.hosts)
        if found and finding.attempt is not None:
            told = [each.rank for each in finding.evidence if each.rank is not None]
            found.update({rank.index: rank.node for rank in told if rank.node is not None})
        return found

    @property
    def fallout(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings[1:] if f.role in (Role.CASCADE, Role.TEARDOWN))

    @property
    def is_partial(self) -> bool:
        """Whether nothing wrong was found but not everything could be checked: neither healthy nor unknown."""
        return self.verdict is Verdict.UNKNOWN and any(
            each.state in (CoverageState.CHECKED, CoverageState.PARTLY) for each in self.coverage
        )

    @property
    def exit_status(self) -> int:
        """0 nothing wrong, 1 problems found, 3 unable to check."""
        if self.verdict is Verdict.HEALTHY:
            return 0
        return 3 if self.verdict is Verdict.UNKNOWN and not self.findings else 1
