# SPDX-License-Identifier: Apache-2.0
"""DAT201: ranks feed inputs of different shapes."""

from __future__ import annotations

from keepstep.rules.api import Cause, ContractBroken, ContractStated, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import BrokenContract, broken_contracts
from keepstep.signals.contracts import Subject

INPUTS = ("argument", "input", "batch", "global shape", "local rows")


def begins_with_inputs(broken: BrokenContract) -> bool:
    """Whether the inputs of a program differ between ranks: then that explains all its other differences."""
    return broken.subject.split(" ", 1)[0] == Subject.PROGRAM and any(
        each.what.lower().startswith(INPUTS) for each in broken.differences
    )


def _is_shape(broken: BrokenContract) -> bool:
    return any(
        each.what != "rows" and not only_dtype(each.values[0][0], each.values[1][0]) for each in broken.differences
    )


def only_dtype(one: str, other: str) -> bool:
    """Whether only the dtype differs, as in float32[32] and float64[32], which another rule reports."""
    (type_, bracket, shape), (other_type, _, other_shape) = one.partition("["), other.partition("[")
    return bool(bracket) and shape == other_shape and type_ != other_type


@rule(
    id="DAT201",
    cause=Cause.DATA_SHAPE_MISMATCH,
    needs=(ContractBroken, ContractStated),
    explains=(
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.USER_CODE_EXCEPTION,
        Cause.NUMERIC_NAN_OR_DIVERGENCE,
    ),
)
def inputs_differ(seen: EvidenceSet) -> Findings:
    """Ranks feed inputs of different shapes into the same step.

    ## What it looks like
    JAX goes on silently: each process compiles a program for its own view of the global array. TensorFlow and PyTorch
    hang or fail in the first collective whose size depends on the batch.

    ## Why it happens
    A shard has fewer rows, the last batch is not dropped, or one rank uses another padding or image size.

    ## How we know
    Every rank states the shapes that it feeds, and they differ between ranks.

    ## What to do
    Give every rank batches of the same size: drop or pad the last one.

    ## When this is wrong
    The number of rows may differ by design where gradients are weighted accordingly; another rule reports that, as a
    warning. Batches may also be padded to their longest sample: batch shapes that differ without a program that depends
    on them are only a warning too.
    """
    for each in broken_contracts(seen, Subject.PROGRAM, Subject.BATCH):
        batch = each.subject.split(" ", 1)[0] == Subject.BATCH
        if (batch and not _is_shape(each)) or (not batch and not begins_with_inputs(each)):
            continue
        yield Found(
            title=f"ranks feed inputs of different shapes: {each.words}",
            because=f"each rank stated what it feeds; these differ from the rest: {each.who}{each.lines}",
            evidence=each.evidence,
            ranks=each.odd,
            severity=None if each.certain else Severity.WARNING,
            fixes=(
                Fix(do="make all batches the same size", code="DataLoader(..., drop_last=True)"),
                Fix(do="with tf.data, drop the remainder", code="dataset.batch(n, drop_remainder=True)"),
            ),
        )
        return
