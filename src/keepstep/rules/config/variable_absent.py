# SPDX-License-Identifier: Apache-2.0
"""CFG106: a variable that gives a process its rank is not set."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG106", cause=Cause.CONFIG_MISSING_RANK_ENV, needs=(VariableFaulty,))
def variable_absent(seen: EvidenceSet) -> Findings:
    """A variable that gives a process its rank, or the address of the others, is not set.

    ## What it looks like
    Some of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set and others are not. `init_process_group`
    raises `environment variable RANK expected, but not set`.

    ## Why it happens
    The script was started without torchrun, a variable was not passed on through ssh, sudo or a container, or the batch
    script sets only some of them.

    ## How we know
    Some of these variables are set, and no other launcher's variables give the missing values.

    ## What to do
    Start the script with a launcher, or set all four variables in every process.

    ## When this is wrong
    The script takes the missing value from its arguments.
    """
    for group in by_fault(faults(seen, Fault.ABSENT)):
        name = group[0].fact.variable
        yield found(
            group,
            f"{name} ({group[0].fact.wanted}) is missing while related variables are set, so the start would fail",
            Fix(do="start the script with a launcher that sets it", command="keepstep run -n 2 -- python train.py"),
        )
