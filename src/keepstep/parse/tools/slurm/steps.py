# SPDX-License-Identifier: Apache-2.0
"""Slurm: what slurmstepd, srun, scancel and sacct say about steps that did not start, were killed or failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_SIGNALS = {
    "Killed": "SIGKILL",
    "Terminated": "SIGTERM",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Interrupt": "SIGINT",
    "Hangup": "SIGHUP",
}


_NOT_HEARD = (
    "ommunication connection failure",
    "Zero Bytes were transmitted or received",
    "essage receive failure",
    "essage send failure",
    "Connection refused",
    "No route to host",
)
"""What Slurm's errors say where its messages did not arrive."""


def _cancelled(match: re.Match[str]) -> Fact:
    reason = (match["reason"] or "").strip()
    node = match["node"]
    if "NODE FAIL" in reason:
        return MachineFault(what="Slurm ended the job because a node failed", node=node)
    if "PREEMPT" in reason:
        return Preempted(by="Slurm", reason="preemption", node=node)
    if "TIME LIMIT" in reason:
        return Preempted(by="Slurm", reason="time limit", node=node)
    if "MEMORY" in reason:
        return OomKilled(by="Slurm")
    if "non-zero" in reason:  # a task failed, and the step was to end with it
        return TerminationRequested(signal="SIGTERM", by="agent", reason="a task of the Slurm step had failed")
    by = "user" if "uid" in reason else "scheduler"
    return TerminationRequested(signal="SIGTERM", by=by, reason=f"Slurm cancelled it{' ' + reason if reason else ''}")


def _not_launched(match: re.Match[str]) -> Fact | None:
    """A step that slurmd on one node would not start; nothing if the step had been cancelled before."""
    why = match["why"].strip()
    if "timed out" in why:
        return ConnectFailed(why=Why.TIMED_OUT, peer=match["node"])
    if any(words in why for words in _NOT_HEARD):
        return ConnectFailed(why=Why.FAILED, peer=match["node"])
    if "No such process" in why or "Job/step already completing" in why:
        return None
    if "ncompatible versions of client and server code" in why:
        return VersionConflict(component="Slurm", there=match["node"])
    return ClusterSpecInvalid(detail=f"Slurm did not start {match['node']}: {why}")


def _tasks(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``srun: error: node3: tasks 0,2-3: Killed``: one fact for each task."""
    how = match["how"].strip()
    if how.startswith("Out Of Memory"):
        yield OomKilled(by="Slurm", rank=_numbers(match["tasks"])[0])
        return
    code = re.match(r"Exited with exit code (\d+)", how)
    name = how.partition(" (core dumped)")[0].rstrip(".")
    for task in _numbers(match["tasks"])[:64]:
        yield ProcessExited(
            reporter="srun",
            rank=task,
            node=match["node"],
            code=int(code[1]) if code else None,
            signal=_SIGNALS.get(name),
        )


def _left_the_others(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``srun: First task exited 30s ago``: below it the tasks that ended and those that it no longer waits for."""
    for line in islice(lines, STATES_OF_TASKS):
        told = re.match(
            r"srun: (?:\S{1,60} )?tasks? (?P<tasks>[\d,\-]{1,200}): (?P<how>exited(?: abnormally)?|running|unknown)$",
            line,
        )
        if told is None:
            return
        if told["how"].startswith("exited"):
            ill = told["how"] == "exited abnormally"
            for task in _numbers(told["tasks"])[:64]:
                yield ProcessExited(reporter="srun", rank=task, code=int(ill), first=ill)


STATES_OF_TASKS = 4
"""A line for each state a task may be in."""


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in re.findall(r"(\d+)(?:-(\d+))?", text):
        low, high = int(part[0]), int(part[1] or part[0])
        found.extend(range(low, min(high, low + 4096) + 1))
    return found or [0]


_STATES = {
    "OUT_OF_ME": OomKilled(by="Slurm"),
    "OUT_OF_MEMORY": OomKilled(by="Slurm"),
    "PREEMPTED": Preempted(by="Slurm", reason="preemption"),
    "TIMEOUT": Preempted(by="Slurm", reason="time limit"),
    "NODE_FAIL": MachineFault(what="a node of the Slurm job failed"),
}


SIGNATURES = (
    signature(
        r"slurmstepd(?:-\S{1,60})?: error: Detected \d+ oom[-_]kill event(?:\(s\)|s)? in (?:StepId=|step )(?P<process>[\w.+]+)",
        lambda m: OomKilled(by="Slurm"),
    ),
    signature(
        r"slurmstepd(?:-\S{1,60})?: (?:error: )?\*\*\* (?:JOB|STEP|Step|StepId=?) ?\S+ (?:STEPD TERMINATED )?ON (?P<node>\S+) (?:CANCELLED AT|FAILED)"
        r"[^\n]{0,24}?(?P<reason>(?:DUE TO|to JOB|due to|FAILED|\(non-zero|by user|with uid)[^\n*]{0,60})?\*\*\*",
        _cancelled,
    ),
    signature(
        r"(?:srun|salloc|slurmstepd): (?:error: |Force Terminated )?(?:[^\n]{0,60})?DUE TO (?P<reason>TIME LIMIT|PREEMPTION|NODE FAILURE)",
        lambda m: (
            MachineFault(what="Slurm ended the job because a node failed")
            if "NODE" in m["reason"]
            else Preempted(by="Slurm", reason=m["reason"].lower())
        ),
    ),
    signature(
        r"srun: error: (?:Couldn't find the specified plugin name for (?P<what>mpi/\w+)|cannot (?:create mpi context for|find mpi plugin for) (?P<name>mpi/\w+)"
        r"|Invalid MPI type '(?P<type>\w+)')",
        lambda m: UnsupportedCombination(what=f"Slurm has no plugin {m['what'] or m['name'] or m['type']}"),
    ),
    signature(
        r"srun: error: Task launch for (?:StepId=)?\S+ failed on node (?P<node>\S+): (?P<why>[A-Z][^\n]{3,80})",
        _not_launched,
    ),
    signature(
        r"slurm_(?:receive_msgs?|send_\w{1,40}): \[?\[?(?P<node>[\w.\-]{1,80})\]?:\d+\] failed: (?P<why>[A-Z][^\n]{3,80})",
        _not_launched,
    ),
    signature(r"srun: error: (?P<node>tasks? [\d,\-]{1,40}) launch failed: (?P<why>[A-Z][^\n]{3,80})", _not_launched),
    # sacct -X: JobID ... State ExitCode
    signature(
        r"^ ?\d+(?:_\d+)?(?:\.\w+)? +\S[^\n]{0,120}? (?P<state>OUT_OF_ME(?:MORY|\+)?|PREEMPTED|TIMEOUT"
        r"|NODE_FAIL)\+? +\d+:\d+",
        lambda m: _STATES.get(m["state"].rstrip("+"), _STATES["OUT_OF_ME"]),
    ),
    # the launcher of MPI ranks
    signature(
        r"srun: error: MPI: (?:Cannot create context for (?P<name>mpi/\w+)|Unable to load any plugin)|Failed mpi_g_slurmstepd_prefork",
        lambda m: UnsupportedCombination(what=f"Slurm has no usable plugin {m['name'] or 'for MPI'}"),
    ),
    # what was asked for
    signature(
        r"slurmstepd: error: execve\((?P<path>[^)\n]{0,200})\): (?:bad interpreter\((?P<name>[^)\n]{1,200})\): )?No such file",
        lambda m: LibraryMissing(name=m["name"] or m["path"] or None) if m["name"] or m["path"] else None,
    ),
)

BLOCKS = (
    block(
        r"srun: error: (?P<node>[\w.\-]+): tasks? (?P<tasks>[\d,\-\[\] ]+): (?P<how>Exited with exit code \d+|Killed|Terminated"
        r"|Segmentation fault(?: \(core dumped\))?|Aborted(?: \(core dumped\))?|Bus error(?: \(core dumped\))?"
        r"|Illegal instruction(?: \(core dumped\))?|Floating point exception(?: \(core dumped\))?|Interrupt"
        r"|Hangup|Out Of Memory)",
        _tasks,
    ),
    block(r"srun: First task exited \d+s ago", _left_the_others),
)
