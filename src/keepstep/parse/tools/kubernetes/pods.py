# SPDX-License-Identifier: Apache-2.0
"""Kubernetes, Docker and SageMaker: kubectl describe/get, events, operators' conditions, exit codes of containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import DiskFull, OomKilled
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature


def _evicted(match: re.Match[str]) -> Fact:
    what = match["what"]
    if "memory" in what:
        return OomKilled(by="Kubernetes (evicted: the node was low on memory)")
    if "storage" in what or "inodes" in what or "disk" in what or "nodefs" in what:
        return DiskFull(path=what)
    return Preempted(by="Kubernetes", reason=f"evicted: the node was low on {what}")


def _of_replica(match: re.Match[str]) -> Fact:
    role = match["role"]
    rank = int(match["index"]) if role == "worker" else 0 if role in ("master", "chief") else None
    return ProcessExited(reporter="Kubernetes", code=int(match["code"]), rank=rank)


_POD = lazy_pattern(
    r"^ *(?:[\w\-]+ +)?\S{1,200}?-(?P<role>worker|chief|master|ps|evaluator|launcher|server|scheduler)-(?P<index>\d+) +\d+/\d+ +(?P<status>[A-Z][\w:]*) +\d"
)
MOST_PODS = 512


def _pods(match: re.Match[str], lines: Iterator[str]) -> Iterable[Fact]:
    """The table of ``kubectl get pods``. Where a job has a master or chief, it is rank 0 and the workers follow."""
    rows = [row for line in takewhile(str.strip, islice(lines, MOST_PODS)) if (row := _POD.match(line))]
    before = sum(row["role"] in ("master", "chief") for row in rows)
    for row in rows:
        if row["status"] == "OOMKilled":
            role = row["role"]
            rank = int(row["index"]) + before if role == "worker" else 0 if role in ("master", "chief") else None
            yield OomKilled(by="Kubernetes", rank=rank)


BLOCKS = (block(r"^ *(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS\b", _pods),)

SIGNATURES = (
    signature(r"The node was low on resource: \[?(?P<what>[\w.\-]+)", _evicted),
    signature(
        r"\bMPIJobEvicted\b|\d+/\d+ workers are evicted", lambda match: Preempted(by="Kubernetes", reason="evicted")
    ),
    signature(
        r"The node had condition: \[(?P<what>DiskPressure|MemoryPressure|PIDPressure)\]",
        lambda m: (
            DiskFull(path="the node's disk")
            if "Disk" in m["what"]
            else OomKilled(by="Kubernetes (evicted: the node was low on memory)")
            if "Memory" in m["what"]
            else Preempted(by="Kubernetes", reason="evicted: the node had too many processes")
        ),
    ),
    signature(
        r"Preempted by (?:pod |a pod |\S+/)?(?P<reason>[\w\-/]*)|Preempted in order to admit critical pod",
        lambda m: Preempted(by="Kubernetes", reason="a pod of higher priority"),
    ),
    signature(
        r"Pod: \S{1,200}-(?P<role>worker|chief|master|ps|evaluator|launcher|server|scheduler)-(?P<index>\d+) exited with code "
        r"(?P<code>[1-9]\d{0,2})\b",
        _of_replica,
    ),
)
