# SPDX-License-Identifier: Apache-2.0
"""The whole check: who this process is, what it and the others see, and one report on all of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.check.collectives import children as collectives
from keepstep.check.collectives.plan import Plan
from keepstep.check.meeting.attend import attend, lead
from keepstep.check.meeting.meeting_point import arrange
from keepstep.check.meeting.over_ssh import cluster_of
from keepstep.check.meeting.slurm_hosts import reachable
from keepstep.check.meeting.started_together import started_by
from keepstep.check.network import host_part
from keepstep.check.parts import PARTS, look
from keepstep.check.place import Collected, Place
from keepstep.cluster import understand
from keepstep.model.evidence import EvidenceSet
from keepstep.model.finding import Confidence, Finding, Severity
from keepstep.model.identity import Rank
from keepstep.model.report import Report
from keepstep.story.engine import diagnose

WAIT_S = 30.0
NO_MEETING = "rank 0's address is unknown: give --meet HOST:PORT"
NOT_ASKED = (
    "not asked, because no launcher seems to have started them: run `keepstep check` under the job's launcher"
    " (srun, torchrun, mpirun), or `keepstep check --wait` once per process"
)


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What to check, and how the processes find each other."""

    parts: tuple[str, ...] = tuple(PARTS)
    script: Path | None = None
    paths: tuple[Path, ...] = ()
    meet: str | None = None
    """``host:port`` of rank 0's check, if the launcher does not give it."""
    wait: float | None = None
    """Seconds that rank 0 waits for the others. None: the usual time if a launcher started them, else not at all."""
    sample: int | None = None
    """This many rounds between the hosts instead of all."""
    collectives: Plan | None = None
    """Those to try, together with the others."""
    member: tuple[int, tuple[str, ...]] | None = None
    """Which of these hosts this one is, if no launcher says so (``--hosts``)."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The result of a check. ``report`` is None where rank 0 has it; the exit status is the same everywhere."""

    report: Report | None
    status: int
    seen: EvidenceSet


def place_of(asked: CheckRequest, env: Mapping[str, str] = os.environ) -> Place:
    """This process, as its launcher describes it."""
    cluster = understand(env) if asked.member is None else cluster_of(asked.member[1], asked.member[0])
    if cluster is not None:
        cluster = reachable(cluster, env)
    host = socket.gethostname()
    own = cluster.own if cluster else None
    rank = Rank(index=own.rank, node=host, local=own.local, role=own.role) if own else None
    return Place(
        env=env,
        host=host,
        rank=rank,
        cluster=cluster,
        script=asked.script,
        paths=asked.paths,
        collectives=asked.collectives,
    )


def check(
    asked: CheckRequest, env: Mapping[str, str] = os.environ, tell: Callable[[Checked], None] | None = None
) -> Checked:
    """Look, meet the other processes of the job if there are any, and judge.

    ``tell`` is called with the result before the other processes are released: a launcher may end everything as soon as
    the first of them exits with status 1.
    """
    place = place_of(asked, env)
    expects = (
        asked.wait is not None or asked.meet is not None or asked.member is not None or started_by(env) is not None
    )
    appointment = arrange(place, asked.meet, WAIT_S if asked.wait is None else asked.wait) if expects else None
    done: list[Checked] = []

    def conclude(looked: Collected) -> int:
        done.append(judged(looked))
        if tell is not None:
            tell(done[0])
        return done[0].status

    if appointment is None:
        looked = look(place, asked.parts)
        if "network" in asked.parts:
            looked.take(host_part.look(place))
        if place.collectives is not None:
            looked.take(collectives.look_alone(place, place.collectives))
        if place.cluster is not None and place.cluster.size > 1:
            looked.unavailable("the other processes", NO_MEETING if expects else NOT_ASKED)
        status = conclude(looked)
    elif appointment.leads:
        status = lead(place, appointment, asked.parts, asked.sample, conclude)
    else:
        looked, end = attend(place, appointment, asked.parts)
        status = conclude(looked) if end is None else end
    return done[0] if done else Checked(report=None, status=status, seen=EvidenceSet(items=()))


def judged(looked: Collected) -> Checked:
    """The result, from everything that was seen."""
    # only the process that judges needs the rules: hundreds may start at once on one machine
    from keepstep.rules import builtin_rules
    from keepstep.rules.notes import notes_on

    seen = EvidenceSet(items=tuple(looked.evidence), coverage=tuple(looked.coverage))
    report = diagnose(seen, builtin_rules(), side_by_side)
    report = replace(report, notes=notes_on(seen, report.findings))
    return Checked(report=report, status=report.exit_status, seen=seen)


def judge(looked: Collected) -> Report:
    """Only the report of it."""
    report = judged(looked).report
    assert report is not None
    return report


def side_by_side(seen: EvidenceSet, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Before a run, no problem follows from another yet: list each on its own, the worst first."""
    severities, confidences = list(Severity), list(Confidence)
    return tuple(
        sorted(findings, key=lambda f: (severities.index(f.severity), confidences.index(f.confidence), f.rule))
    )
