# SPDX-License-Identifier: Apache-2.0
"""CFG103: a process is set up as a task that its cluster does not have."""

from __future__ import annotations

from dataclasses import replace

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, Severity, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG103", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def task_not_in_cluster(seen: EvidenceSet) -> Findings:
    """A process is set up as a task that its cluster does not have.

    ## What it looks like
    The task's index is beyond the list, negative, or text, or TensorFlow or the cluster does not know its type.
    TensorFlow prints `task_id ... is out of range` or `Invalid task_type`, and the others wait for a task that was
    never started.

    ## Why it happens
    The indices count from 1, there is one host more than the list has, a template left a string where a number belongs,
    or the type is `workers` instead of `worker`.

    ## How we know
    The index is compared with the length of its own list.

    ## What to do
    Count from 0. The highest index is one less than the number of addresses.

    ## When this is wrong
    Never: TensorFlow rejects it too.
    """
    kinds = (Fault.UNKNOWN_ROLE, Fault.ROLE_NOT_IN_CLUSTER, Fault.INDEX_NOT_A_NUMBER, Fault.INDEX_OUT_OF_RANGE)
    for group in by_fault(faults(seen, *kinds)):
        finding = found(
            group,
            f"it must be {group[0].fact.wanted}; the task that is left over never starts, and the others wait for it",
            Fix(do=f"set the task in TF_CONFIG: {group[0].fact.wanted}"),
        )
        quoted = group[0].fact.fault is Fault.INDEX_NOT_A_NUMBER and (group[0].fact.value or "").strip().isdecimal()
        if quoted:
            because = "TensorFlow accepts it, but a script that compares it with a number finds them unequal"
            finding = replace(finding, because=because, severity=Severity.WARNING)
        yield finding
