# SPDX-License-Identifier: Apache-2.0
"""NET011: every rank waited in the same collective until its time limit, so no data got through."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    duration,
    everyone,
    rule,
)
from keepstep.rules.sync._waiting import failed_at
from keepstep.signals.stacks import place

_TRANSFERS = ("recv", "send")
"""Gloo's names for a transfer over TCP."""


@rule(
    id="NET011",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(CollectiveTimeout,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=SEEN_BY_OTHER_RANKS,
)
def nobody_missing(seen: EvidenceSet) -> Findings:
    """Every rank waited for data at the same line until its own time limit.

    ## What it looks like
    `Timed out waiting 1800000ms for recv operation to complete` on all ranks, each with a traceback that ends at the
    same line of the training script.

    ## Why it happens
    All ranks were there, so the program is in step, but what they sent did not arrive. A firewall began to drop
    packets, a link or route failed (perhaps in one direction), or large packets are lost on the way.

    ## How we know
    A rank that is late or stuck elsewhere does not time out here: it would be missing among the ranks that waited.

    ## What to do
    Look at the network between the hosts at that time. Try small and large packets.

    ## When this is wrong
    Ranks that reach the same line with tensors of different sizes may wait for each other too.
    """
    timed: dict[int, Evidence[CollectiveTimeout]] = {}
    for each in seen.all(CollectiveTimeout):
        if each.who is not None and each.fact.op in _TRANSFERS and not seen.survived(each):
            timed.setdefault(each.who, each)
    world = seen.world_size or len(seen.ranks)
    if len(timed) < 2 or set(timed) != set(everyone(world)):
        return
    lines = {rank: failed_at(seen, rank) for rank in timed}
    first = next(iter(lines.values()))
    if first is None or any(
        line is None or (line.file, line.line) != (first.file, first.line) for line in lines.values()
    ):
        return
    limit = next((e.fact.timeout_ms for e in timed.values() if e.fact.timeout_ms), None)
    waited = f" for {duration(limit / 1000)}" if limit else ""
    yield Found(
        title=f"all {world} ranks waited{waited} in {place(first)}: none was missing, and no data came through",
        because="each rank waited at the same line until its own time limit, so the data was lost between them",
        evidence=tuple(timed.values()),
        ranks=(),
        fixes=(
            Fix(do="try the ports between the hosts", command="nc -vz HOST PORT"),
            Fix(do="check whether large packets pass as well as small ones", command="ping -M do -s 1400 HOST"),
            Fix(do="look at firewalls, routes and links at that time", command="iptables -nvL; ip -s link"),
        ),
    )
