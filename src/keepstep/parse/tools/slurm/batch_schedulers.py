# SPDX-License-Identifier: Apache-2.0
"""Why a scheduler other than Slurm ended a job: PBS, Torque and Moab, LSF, Grid Engine, HTCondor, Flux, Iris."""

from __future__ import annotations

from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.resource import LimitReached, OomKilled
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # PBS, Torque, Moab
    signature(
        r"PBS: job killed: (?P<reason>walltime|mem|vmem|cput)[^\n]{0,60}exceeded limit",
        lambda m: OomKilled(by="PBS") if "mem" in m["reason"] else Preempted(by="PBS", reason="time limit"),
    ),
    signature(
        r"PBS: job killed: (?:ncpus|ppn) [^\n]{0,40}exceeded limit",
        Preempted,
        by="PBS",
        reason="used more processors than it requested",
    ),
    signature(
        r"PBS: job killed: node \d+ \((?P<node>[\w.\-]{1,80})\) requested job (?:terminate|die)",
        MachineFault,
        what="PBS ended the job because a node was lost",
    ),
    signature(
        r"MOAB_INFO: +job (?:was )?(?:exceeded|violates|exceeds) (?:wallclock|walltime|wall clock)",
        Preempted,
        by="Moab",
        reason="time limit",
    ),
    signature(r"\bjob exceeded MEM usage (?:hard )?limit", OomKilled, by="Moab"),
    signature(
        r"[Jj]ob deleted at request of (?:root|maui|moab|pbs\w*)@",
        Preempted,
        by="PBS",
        reason="deleted by the scheduler",
    ),
    signature(r"[Jj]ob deleted at request of (?!(?:root|maui|moab|pbs))\w", TerminationRequested, by="user"),
    # LSF
    signature(
        r"TERM_(?P<reason>MEMLIMIT|RUNLIMIT|PREEMPT|OWNER|CPULIMIT)\b",
        lambda m: OomKilled(by="LSF") if "MEM" in m["reason"] else Preempted(by="LSF", reason=m["reason"].lower()),
    ),
    signature(
        r"TERM_ADMIN: job killed by root or LSF administrator",
        TerminationRequested,
        by="scheduler",
        reason="killed by an administrator",
    ),
    signature(r"TERM_SWAP: job killed after reaching LSF swap usage limit", OomKilled, by="LSF"),
    signature(r"TERM_(?:THREAD|PROCESS)LIMIT: job killed after reaching LSF", LimitReached, limit="processes"),
    signature(r"TERM_(?:DEADLINE|WINDOW|LOAD): job killed after", Preempted, by="LSF", reason="limit of the queue"),
    # Grid Engine
    signature(r"exceeded hard wallclock time", Preempted, by="Grid Engine", reason="time limit"),
    signature(r"exceeds job hard limit \"(?:h_vmem|h_rss|h_data|mem_free)\"", OomKilled, by="Grid Engine"),
    signature(r"exceeds job hard limit \"(?:h_rt|h_cpu)\"", Preempted, by="Grid Engine", reason="time limit"),
    # HTCondor
    signature(r"^004 \([\d.]{3,40}\)[^\n]{0,40} Job was evicted", Preempted, by="HTCondor"),
    signature(r"Job has gone over (?:cgroup )?memory limit of (?P<limit>\d+ megabytes)", OomKilled, by="HTCondor"),
    signature(r"The job exceeded allowed (?:execute|job) duration", Preempted, by="HTCondor", reason="time limit"),
    # Flux
    signature(r"job\.exception type=timeout\b|resource allocation expired", Preempted, by="Flux", reason="time limit"),
    # Iris, which ends all tasks of a gang when one has failed
    signature(r"Coscheduled sibling \S{1,300}?/(?P<rank>\d{1,6}) failed", ProcessExited, reporter="Iris", first=True),
)
