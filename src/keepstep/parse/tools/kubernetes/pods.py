# SPDX-License-Identifier: Apache-2.0
"""Kubernetes, Docker and SageMaker: kubectl describe/get, events, operators' conditions, exit codes of containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import NotScheduled
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.platform import MachineFault, Preempted
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
    signature(r"\bOOMKilled\b", OomKilled, by="Kubernetes"),
    signature(
        r"Container \S+ (?:was|is) (?:using|OOM)[^\n]{0,80}which exceeds its (?:request|limit)",
        OomKilled,
        by="Kubernetes",
    ),
    signature(r"\"?OOMKilled\"?: ?true", OomKilled, by="Docker"),
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
        r"(?:exceeded its local ephemeral storage limit|[Ee]phemeral[- ](?:local )?storage usage exceeds the total"
        r" limit|exceeds the limit \"[\w.]+\")",
        DiskFull,
    ),
    signature(
        r"(?P<asked>\d+/\d+ nodes are available:[^\n]{0,60}?\d+ Insufficient [\w.\-/]+)",
        NotScheduled,
        by="Kubernetes",
        never=False,
    ),
    signature(
        r"No nodes are available that match all of the (?:following )?predicates[^\n]{0,200}?(?P<asked>Insufficient [\w.\-/]+)",
        NotScheduled,
        by="Kubernetes",
        never=False,
    ),
    signature(
        r"(?P<asked>Allocate failed due to requested number of devices unavailable for [\w.\-/]+)",
        NotScheduled,
        by="Kubernetes",
        never=False,
    ),
    signature(
        r"(?P<what>could not select device driver [^\n]{0,20} with capabilities: \[\[[^\]\n]{0,60}gpu[^\]\n]{0,60}\]\])",
        CudaMismatch,
    ),
    signature(
        r"nvidia-container-cli: (?P<what>(?:initialization error|requirement error|device error|mount error|detection error)[^\n]{0,120})",
        CudaMismatch,
    ),
    signature(r"(?P<what>unsupported CUDA version: (?:driver )?[\d.]{1,12} < (?:image )?[\d.]{1,12})", CudaMismatch),
    signature(r"Usage of EmptyDir volume \"(?P<path>[^\"\n]+)\" exceeds the limit", DiskFull),
    signature(
        r"\b(?:NodeNotReady|NodeLost|Node is not ready|node\.kubernetes\.io/(?:unreachable|not-ready))",
        MachineFault,
        what="the node was not ready",
    ),
    signature(
        r"Node (?P<node>\S+) (?:status is now: NodeNotReady|(?:is|became) NotReady)",
        MachineFault,
        what="the node was not ready",
    ),
    signature(
        r"Preempted by (?:pod |a pod |\S+/)?(?P<reason>[\w\-/]*)|Preempted in order to admit critical pod",
        lambda m: Preempted(by="Kubernetes", reason="a pod of higher priority"),
    ),
    signature(
        r"reason: (?P<reason>Preempting|PreemptionByScheduler|PreemptionByKubeScheduler"
        r"|TerminationByKubelet|DeletionByTaintManager"
        r"|EvictionByEvictionAPI|Shutdown|NodeShutdown|Terminated)\b",
        Preempted,
        by="Kubernetes",
    ),
    signature(
        r"Pod was (?:terminated in response to imminent node shutdown|rejected as the node is shutting down)",
        Preempted,
        by="Kubernetes",
        reason="the node was shut down",
    ),
    signature(
        r"DeadlineExceeded[^\n]{0,80}(?:Job|Pod) was active (?:on the node )?longer than (?:the )?specified"
        r" deadline|was active longer than specified deadline",
        Preempted,
        by="Kubernetes",
        reason="time limit",
    ),
    signature(
        r"TaintManagerEviction|Marking for deletion Pod",
        Preempted,
        by="Kubernetes",
        reason="evicted by a taint of the node",
    ),
    signature(
        r"[Cc]ontainer(?: \S{1,80})? exited with (?:exit )?code:? (?P<code>1[23]\d|[1-9]\d?)\b",
        ProcessExited,
        reporter="container",
    ),
    signature(
        r"Pod: \S{1,200}-(?P<role>worker|chief|master|ps|evaluator|launcher|server|scheduler)-(?P<index>\d+) exited with code "
        r"(?P<code>[1-9]\d{0,2})\b",
        _of_replica,
    ),
    signature(r"^ *Exit Code: +(?P<code>[1-9]\d{0,2})\s*$", ProcessExited, reporter="Kubernetes"),
    signature(
        r"AlgorithmError: [^\n]{0,60}?[Ee]xit [Cc]ode: (?P<code>[1-9]\d{0,2})\b", ProcessExited, reporter="container"
    ),
    signature(r"command terminated with exit code (?P<code>1[23]\d)\b", ProcessExited, reporter="container"),
    signature(r"exitCode: (?P<code>[1-9]\d{0,2})\b", ProcessExited, reporter="Kubernetes"),
)
