# SPDX-License-Identifier: Apache-2.0
"""CFG105: the tasks in the cluster description contradict each other."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG105", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def roles_conflict(seen: EvidenceSet) -> Findings:
    """The tasks in the cluster description contradict each other.

    ## What it looks like
    Two tasks have the same address, there are two chiefs, or the evaluator is listed as a member of the cluster.

    ## Why it happens
    A line was copied without changing it, or the evaluator was added where TensorFlow 1 expected it.

    ## How we know
    The lists of tasks are compared with each other.

    ## What to do
    Give each task its own address, and list at most one chief. Give the evaluator the same cluster, without itself in
    it, and the task type `evaluator`.

    ## When this is wrong
    Never for two tasks on one host: they only need different ports, which this rule allows.
    """
    for group in by_fault(faults(seen, Fault.DUPLICATE_ADDRESS, Fault.SEVERAL_CHIEFS, Fault.EVALUATOR_IN_CLUSTER)):
        yield found(
            group,
            f"TensorFlow needs {group[0].fact.wanted}; as it is, tasks wait for each other or take each other's place",
            Fix(do=f"change TF_CONFIG in all processes: {group[0].fact.wanted}"),
        )
