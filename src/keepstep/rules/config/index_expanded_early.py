# SPDX-License-Identifier: Apache-2.0
"""CFG013: the batch shell expanded a task's index, so every task got the same."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, IndexExpandedEarly, Severity, rule
from keepstep.rules.asking.fallout import FALLOUT


@rule(
    id="CFG013",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(IndexExpandedEarly,),
    confidence=Confidence.SUPPORTED,
    explains=(
        *FALLOUT,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_PORT_IN_USE,
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        Cause.CONFIG_TRAINS_ALONE,
    ),
)
def index_expanded_early(seen: EvidenceSet) -> Findings:
    """The batch script's own shell replaced `$SLURM_NODEID` or `$SLURM_PROCID`, so every task got the index 0.

    ## What it looks like
    Every node starts as node 0. The rendezvous waits for the others until its time limit, or two processes come as the
    same rank.

    ## Why it happens
    The script writes `srun torchrun --node_rank $SLURM_NODEID ...`. Its shell runs once, on the first node, and
    replaces the variable before srun starts the tasks. There it is always 0.

    ## How we know
    The batch script is among the files. It asks for several nodes or tasks, and uses the variable outside single
    quotes.

    ## What to do
    Let each task's own shell replace it: `srun bash -c 'torchrun --node_rank $SLURM_NODEID ...'`.

    ## When this is wrong
    The script is also what each task runs.
    """
    found = seen.all(IndexExpandedEarly)
    if not found:
        return
    fact = found[0].fact
    yield Found(
        title=f"the batch script's shell replaced ${fact.variable} for all tasks ({fact.into})",
        because="the variable is used outside single quotes, so it is replaced before srun starts the tasks",
        evidence=found[:2],
        severity=None if seen.broken else Severity.WARNING,
        fixes=(
            Fix(
                do="let the shell of each task replace it",
                command=f"srun bash -c 'torchrun --node_rank ${fact.variable} OPTIONS SCRIPT'",
            ),
        ),
    )
