# SPDX-License-Identifier: Apache-2.0
"""CFG102: the cluster description is incomplete."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG102", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def description_incomplete(seen: EvidenceSet) -> Findings:
    """The cluster description is incomplete.

    ## What it looks like
    TF_CONFIG has no `cluster`, no `task`, addresses that are not a list, or neither a chief nor a worker.

    ## Why it happens
    A part was forgotten, or the same text without a task was given to every process.

    ## How we know
    The variable was parsed, and the part is not there.

    ## What to do
    Give every process the same `cluster` and its own `task`.

    ## When this is wrong
    A process that only evaluates may have no cluster.
    """
    kinds = (Fault.NO_CLUSTER, Fault.NO_TASK, Fault.BAD_CLUSTER, Fault.NOBODY_TRAINS)
    for group in by_fault(faults(seen, *kinds)):
        yield found(
            group,
            f"each process needs the whole cluster and its own place in it; here, {group[0].fact.wanted}",
            Fix(
                do="let keepstep write TF_CONFIG from the list of hosts",
                command="keepstep check config --write --hosts HOST1,HOST2",
            ),
        )
