# SPDX-License-Identifier: Apache-2.0
"""CFG106: a variable that says who a process is, is not set."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import Fault, VariableFaulty
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG106", cause=Cause.CONFIG_MISSING_RANK_ENV, needs=(VariableFaulty,))
def variable_absent(seen: EvidenceSet) -> Iterator[Found]:
    """A variable that says who a process is, or where the others are, is not set.

    ## What it looks like
    Some of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set and others are not. `init_process_group`
    raises `environment variable RANK expected, but not set`.

    ## Why it happens
    The script is started without torchrun, a variable was not passed on through ssh, sudo or a container, or
    the batch script sets only a part.

    ## How we know
    A part of the set is there, and no other launcher's variables say the missing part.

    ## What to do
    Start it with a launcher, or set all four in every process.

    ## When this is wrong
    The script takes the missing value from its arguments.
    """
    for group in by_fault(faults(seen, Fault.ABSENT)):
        name = group[0].fact.variable
        yield found(
            group,
            f"the others of its set are there, but {name} ({group[0].fact.wanted}) is not, and the start would stop at it",
            Fix(do="start the script with a launcher that sets it", command="keepstep run -n 2 -- python train.py"),
        )
