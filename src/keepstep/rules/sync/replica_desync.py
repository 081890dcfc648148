# SPDX-License-Identifier: Apache-2.0
"""SYN005: replicas that must be equal differ."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised, ModelsDiffer, NonFinite, ReplicasDiffer
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.sync._parameter_counts import of_no_model
from keepstep.rules.sync._waiting import who

LISTED_WITHIN = 4
"""Lines from the message to the values that it compared."""


@rule(
    id="SYN005",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(ModelsDiffer, ReplicasDiffer, ExceptionRaised),
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    ),
)
def replica_desync(seen: EvidenceSet) -> Findings:
    """The model or its values differ between ranks that must hold the same ones.

    ## What it looks like
    `DDP expects same model across all ranks`, `appears not to match sizes of the same param in process 0`,
    `gradients are inconsistent between workers`, parameter hashes that do not match.

    ## Why it happens
    Ranks build the model from different settings (vocabulary, classes, adapters, checkpoint), without a
    common seed, or change it after wrapping it; or one rank's update did not arrive.

    ## How we know
    The wrapper compared the ranks and reports where they differ.

    ## What to do
    Build the model from the same configuration and checkpoint on every rank, before wrapping it.

    ## When this is wrong
    If another rank failed before it could send its shapes, the comparison reads garbage. A count that no model can have
    is reported as a mismatch of collectives (SYN008), and values that are all NaN as NaN (NUM001).
    """
    models = [e for e in seen.all(ModelsDiffer) if not seen.survived(e) and not of_no_model(e.fact)]
    values = [e for e in seen.all(ReplicasDiffer) if not seen.survived(e) and not _not_numbers(seen, e)]
    fixes = (
        Fix(
            do="print the number of parameters on each rank before wrapping",
            code="print(rank, sum(p.numel() for p in model.parameters()))",
        ),
        Fix(do="build the model from the same configuration, seed and checkpoint on every rank, then wrap it"),
    )
    if models:
        detail = next((e.fact.detail for e in models if e.fact.detail), None)
        ranks = tuple(dict.fromkeys(r for e in models if (r := who(e)) is not None))
        yield Found(
            title=f"ranks built different models{': ' + shorten(detail, 60) if detail else ''}",
            because="the wrapper compared the parameters of the ranks, and they do not match",
            evidence=tuple(models),
            ranks=ranks if len(ranks) <= 2 else (),
            fixes=fixes,
        )
    elif unequal := _found_unequal(seen):
        yield Found(
            title=f"hosts disagree on a value that must be equal: {shorten(unequal[0].fact.message, 50)}",
            because="JAX compared the value between the hosts, and it differs",
            evidence=unequal,
            fixes=fixes,
        )
    elif values:
        detail = next((e.fact.detail for e in values if e.fact.detail), "values")
        ranks = tuple(dict.fromkeys(r for e in values if (r := who(e)) is not None))
        yield Found(
            title=f"{shorten(detail, 50)} differed between ranks, but must be equal",
            because="the run compared values between ranks, and they differ",
            evidence=tuple(values),
            ranks=ranks if len(ranks) <= 2 else (),
            fixes=fixes,
        )


def _not_numbers(seen: EvidenceSet, differ: Evidence[ReplicasDiffer]) -> bool:
    """Whether the values that were compared are listed below, and all are NaN, which equals nothing."""
    return any(e.fact.fatal for e in seen.near(differ, NonFinite, after=LISTED_WITHIN))


def _found_unequal(seen: EvidenceSet) -> tuple[Evidence[ExceptionRaised], ...]:
    """Failures of ``jax.experimental.multihost_utils.assert_equal``, except those about a barrier's name."""
    return tuple(
        e
        for e in seen.all(ExceptionRaised)
        if e.fact.type.endswith("AssertionError")
        and not e.fact.logged
        and "sync_global_devices" not in e.fact.message
        and any(f.function == "assert_equal" and (f.file or "").endswith("multihost_utils.py") for f in e.fact.frames)
        and not seen.survived(e)
    )
