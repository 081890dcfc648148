# SPDX-License-Identifier: Apache-2.0
"""Where a check runs: this process, its environment, and the cluster its launcher describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.check.collectives.plan import Plan
from keepstep.cluster.cluster_type import Cluster
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.identity import Rank


@dataclass(frozen=True, kw_only=True)
class Place:
    """The process that checks. ``cluster`` is None if no launcher describes one that can be understood."""

    env: Mapping[str, str]
    host: str
    rank: Rank | None = None
    cluster: Cluster | None = None
    script: Path | None = None
    """The training script, if given."""
    paths: tuple[Path, ...] = ()
    """Where the run will write: checkpoints, logs, temporary files."""
    collectives: Plan | None = None
    """Those to try, if asked for."""

    def saw(self, fact: Fact, where: str, quote: str = "") -> Evidence[Fact]:
        """Evidence of ``fact``, seen at ``where`` (``TF_CONFIG``, ``/proc/meminfo``, ...) by this process."""
        return Evidence(fact=fact, origin=Origin(source=f"{where} on {self.host}"), rank=self.rank, quote=quote)


@dataclass
class Collected:
    """What one part of the check saw, and what it could not check."""

    evidence: list[Evidence[Fact]] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)

    def add(self, *evidence: Evidence[Fact]) -> None:
        self.evidence.extend(evidence)

    def checked(self, what: str) -> None:
        self.coverage.append(Coverage(what=what, state=CoverageState.CHECKED))

    def unavailable(self, what: str, why: str) -> None:
        self.coverage.append(Coverage(what=what, state=CoverageState.UNAVAILABLE, why=why))

    def partly(self, what: str, why: str) -> None:
        """What could not be read as a whole: nothing is called healthy then."""
        self.coverage.append(Coverage(what=what, state=CoverageState.PARTLY, why=why))

    def take(self, other: Collected) -> None:
        self.evidence += other.evidence
        self.coverage += other.coverage
