# SPDX-License-Identifier: Apache-2.0
"""SYN003: parameters under a data-parallel wrapper got no gradient, or two."""

from __future__ import annotations

from keepstep.model.facts import MarkedReadyTwice, UnusedParameters
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, rule, shorten


@rule(
    id="SYN003",
    cause=Cause.SYNC_UNUSED_PARAMETERS,
    needs=(UnusedParameters, MarkedReadyTwice),
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    ),
)
def unused_parameters(seen: EvidenceSet) -> Findings:
    """The data-parallel wrapper waited for gradients of parameters that the loss does not use.

    ## What it looks like
    `Expected to have finished reduction in the prior iteration`, `Parameter indices which did not receive
    grad for rank 0`, `Expected to mark a variable ready only once`, `has been marked as ready twice`.

    ## Why it happens
    The wrapper expects exactly one gradient per parameter and step. A head, branch or frozen part that does not
    contribute to the loss gives none; a shared or re-entrant checkpointed part gives two.

    ## How we know
    The wrapper says so and stops the step.

    ## What to do
    Freeze or remove what is unused, or allow it with `find_unused_parameters=True`; with gradient
    checkpointing use `use_reentrant=False`, or a static graph.

    ## When this is wrong
    A rank that failed inside its forward pass also leaves its parameters unreduced.
    """
    unused = [e for e in seen.all(UnusedParameters) if not seen.survived(e)]
    twice = [e for e in seen.all(MarkedReadyTwice) if not seen.survived(e)]
    if unused:
        names = next((e.fact.names for e in unused if e.fact.names), None)
        what = f": {shorten(names, 40)}" if names else ""
        yield Found(
            title=f"parameters got no gradient under DistributedDataParallel{what}",
            because="the wrapper waited for gradients of parameters that do not contribute to the loss",
            evidence=tuple(unused),
            fixes=(
                Fix(do="print which parameters they are", command="export TORCH_DISTRIBUTED_DEBUG=DETAIL"),
                Fix(
                    do="freeze or remove them, or allow them",
                    code="DistributedDataParallel(model, find_unused_parameters=True)",
                ),
            ),
        )
        return
    if twice:
        name = next((e.fact.name for e in twice if e.fact.name), None)
        yield Found(
            title=f"parameter {name or 'gradients'} was reduced twice in one step",
            because="a parameter takes part in several backward passes of one step, usually because of checkpointing",
            evidence=tuple(twice),
            fixes=(
                Fix(
                    do="checkpoint without re-entrant backward passes",
                    code="model.gradient_checkpointing_enable({'use_reentrant': False})",
                ),
                Fix(
                    do="or tell the wrapper that the graph never changes, without find_unused_parameters",
                    code="DistributedDataParallel(model, find_unused_parameters=False, static_graph=True)",
                    safety=Safety.SAFE,
                ),
            ),
        )
