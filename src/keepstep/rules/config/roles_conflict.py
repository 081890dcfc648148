# SPDX-License-Identifier: Apache-2.0
"""CFG105: the tasks of the cluster contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import Fault, VariableFaulty
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG105", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def roles_conflict(seen: EvidenceSet) -> Iterator[Found]:
    """The tasks of the cluster contradict each other.

    ## What it looks like
    Two tasks have one address, there are two chiefs, or the evaluator is listed as a member of the cluster.

    ## Why it happens
    A line was copied without changing it; the evaluator was added where TensorFlow 1 wanted it.

    ## How we know
    The lists are compared with each other.

    ## What to do
    One address for each task; at most one chief; the evaluator gets the same cluster without itself, and the
    task type `evaluator`.

    ## When this is wrong
    Two tasks on one host need only different ports, which this rule allows.
    """
    for group in by_fault(faults(seen, Fault.DUPLICATE_ADDRESS, Fault.SEVERAL_CHIEFS, Fault.EVALUATOR_IN_CLUSTER)):
        yield found(
            group,
            f"TensorFlow wants {group[0].fact.wanted}; as it is, tasks wait for each other or take each other's place",
            Fix(do=f"change TF_CONFIG in all processes: {group[0].fact.wanted}"),
        )
