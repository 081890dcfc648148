# SPDX-License-Identifier: Apache-2.0
"""NET007: InfiniBand, RoCE or EFA failed."""

from __future__ import annotations

from keepstep.model.facts import RdmaTrouble
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Standing,
    rule,
)


@rule(
    id="NET007",
    cause=Cause.NETWORK_RDMA_IB,
    needs=(RdmaTrouble,),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def rdma_ib(seen: EvidenceSet) -> Findings:
    """The RDMA transport (InfiniBand, RoCE, EFA) between hosts failed.

    ## What it looks like
    `NET/IB : Got completion from peer ... with error 12`, `Call to ibv_modify_qp failed`,
    `ibv_reg_mr failed`, `UCX ERROR Transport retry count exceeded`, `NET/OFI ... failed`.

    ## Why it happens
    The GID index or subnet is wrong (RoCE); a cable, switch or adapter drops packets; adapters or link types are
    mixed; locked memory is limited; a container lacks permission; or the peer died.

    ## How we know
    The transport reports which verb or completion failed.

    ## What to do
    Test the fabric between the two hosts alone; set the GID index and the adapters; or run without RDMA to confirm.

    ## When this is wrong
    Error 12 only says that the peer did not answer: if that process died first, its own output says why.
    """
    trouble = [e for e in seen.all(RdmaTrouble) if e.fact.fatal and not seen.survived(e)]
    if not trouble:
        return
    first = trouble[0].fact
    peer = next((e.fact.peer for e in trouble if e.fact.peer), None)
    answerless = all("does not answer" in e.fact.what or "flushed" in e.fact.what for e in trouble)
    memory = any("Cannot allocate memory" in e.fact.what for e in trouble)
    fixes = [
        Fix(
            do="test the fabric between the two hosts alone", command="ib_write_bw -d mlx5_0 --report_gbits OTHER_HOST"
        ),
        Fix(
            do="choose the adapters and, for RoCE, the GID index",
            command="export NCCL_IB_HCA=mlx5 NCCL_IB_GID_INDEX=3; show_gids",
        ),
        Fix(do="run without RDMA to confirm (slower)", command="export NCCL_IB_DISABLE=1", safety=Safety.SAFE),
    ]
    if memory:
        fixes.insert(0, Fix(do="raise the limit on locked memory", command="ulimit -l unlimited"))
    yield Found(
        title=f"RDMA failed{' to ' + peer if peer else ''}: {first.what}",
        because="the transport reports a failed operation" + ("; the peer did not answer" if answerless else ""),
        evidence=tuple(trouble),
        standing=Standing.SYMPTOM if answerless else Standing.MECHANISM,
        fixes=tuple(fixes),
    )
