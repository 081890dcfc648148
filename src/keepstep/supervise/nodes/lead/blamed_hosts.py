# SPDX-License-Identifier: Apache-2.0
"""On which hosts the report on an attempt places its failure. Pure."""

from __future__ import annotations

from collections.abc import Collection

from keepstep.model.finding import Confidence
from keepstep.model.report import Report
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.nodes.lead.hosts_left_out import OF_THE_HOST, Failure
from keepstep.supervise.start.layout import Layout


def failure_of(
    attempt: int,
    happened: Happened,
    report: Report,
    *,
    lost: Collection[str],
    machines: Collection[str],
    layout: Layout,
) -> Failure | None:
    """``lost``: the hosts that went silent; ``machines``: those of the attempt, the leader's first."""
    root = report.root
    if root is not None and root.cause in OF_THE_HOST and root.confidence is not Confidence.HYPOTHESIS and not lost:
        named = {each.rank.node for each in root.evidence if each.rank is not None and each.rank.node is not None}
        sat = {seat.machine for seat in layout.seats if seat.rank in root.ranks}
        return Failure(attempt=attempt, cause=root.cause, hosts=tuple(sorted(named & set(machines) or sat)))
    if happened is not Happened.NODE_LOST or not lost:
        return None
    if len(lost) > 1 and len(lost) >= len(machines) - 1:
        return None  # all others at once: it is the leader that was cut off
    return Failure(attempt=attempt, cause=None, hosts=tuple(sorted(lost)))
