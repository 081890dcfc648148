# SPDX-License-Identifier: Apache-2.0
"""CFG107: a rank, size or port is impossible."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG107", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(VariableFaulty,))
def variable_out_of_range(seen: EvidenceSet) -> Findings:
    """A variable gives a rank, size or port that is impossible.

    ## What it looks like
    RANK is not below WORLD_SIZE, a number is text or negative, or a port is above 65535. The run waits for a rank that
    never arrives, or stops at once.

    ## Why it happens
    The ranks count from 1, the number of hosts is given instead of the number of processes, or a variable holds an
    unexpanded template.

    ## How we know
    Each variable is read as the framework reads it, and compared with the world size.

    ## What to do
    Ranks go from 0 to WORLD_SIZE - 1, and local ranks from 0 to one less than the number of processes on the host.

    ## When this is wrong
    Never: the frameworks reject it too.
    """
    for group in by_fault(faults(seen, Fault.NOT_A_NUMBER, Fault.OUT_OF_RANGE)):
        yield found(
            group,
            f"it must be {group[0].fact.wanted}",
            Fix(do="or let the launcher set it", command="keepstep run -n 2 -- python train.py"),
        )
