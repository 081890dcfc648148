# SPDX-License-Identifier: Apache-2.0
"""Why a scheduler other than Slurm ended a job: PBS, Torque and Moab, LSF, Grid Engine, HTCondor, Flux, Iris."""

from __future__ import annotations

from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # PBS, Torque, Moab
    signature(
        r"PBS: job killed: (?P<reason>walltime|mem|vmem|cput)[^\n]{0,60}exceeded limit",
        lambda m: OomKilled(by="PBS") if "mem" in m["reason"] else Preempted(by="PBS", reason="time limit"),
    ),
    # LSF
    signature(
        r"TERM_(?P<reason>MEMLIMIT|RUNLIMIT|PREEMPT|OWNER|CPULIMIT)\b",
        lambda m: OomKilled(by="LSF") if "MEM" in m["reason"] else Preempted(by="LSF", reason=m["reason"].lower()),
    ),
)
