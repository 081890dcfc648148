# SPDX-License-Identifier: Apache-2.0
"""SYN008: a rank received a number of parameters that no model has."""

from __future__ import annotations

from keepstep.model.facts import ModelsDiffer
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.sync._parameter_counts import of_no_model


@rule(
    id="SYN008",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(ModelsDiffer,),
    confidence=Confidence.SUPPORTED,
    explains=SEEN_BY_OTHER_RANKS,
)
def count_of_no_model(seen: EvidenceSet) -> Findings:
    """The wrapper compared parameter counts, and read another collective's data as a count.

    ## What it looks like
    `DDP expects same model across all ranks, but Rank 0 has 154 params, while rank 1 has inconsistent 7599578 params`.

    ## Why it happens
    The ranks exchange their number of parameters in an all-gather. If one rank is in another collective at that
    moment (a broadcast, a barrier, the all-reduce of a metric), its data is read as the number.

    ## How we know
    The number is negative or in the millions. It counts parameter tensors, of which the largest models have thousands.

    ## What to do
    Look at what each rank calls before it wraps its model; the calls must be the same, in the same order.

    ## When this is wrong
    If data between the GPUs gets lost, the number is what was in the buffer before. Run once without peer-to-peer.
    """
    odd = [e for e in seen.all(ModelsDiffer) if of_no_model(e.fact) and not seen.survived(e)]
    if not odd:
        return
    yield Found(
        title=f"ranks ran different collectives when the model was wrapped: {shorten(odd[0].fact.detail or '', 60)}",
        because="no model has that many parameters: the number is data of another collective",
        evidence=tuple(odd),
        ranks=(),
        fixes=(
            Fix(
                do="have PyTorch compare every collective between ranks and name the line",
                command="export TORCH_DISTRIBUTED_DEBUG=DETAIL",
            ),
            Fix(
                do="call the same collectives on every rank before the model is wrapped: no `if rank == 0:` around one"
            ),
            Fix(do="exclude lost data between GPUs", command="export NCCL_P2P_DISABLE=1"),
        ),
    )
