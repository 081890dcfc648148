# SPDX-License-Identifier: Apache-2.0
"""CFG011: NCCL's own messages show two ranks of one communicator on one device."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.model.facts import CommMember, ExceptionRaised
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Found, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.fallout import FALLOUT
from keepstep.rules.config.cluster_spec import A_DEVICE_EACH

REFUSED = ("invalid usage", "ncclInvalidUsage")


@rule(
    id="CFG011",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(CommMember,),
    explains=(*FALLOUT, Cause.USER_CODE_EXCEPTION, Cause.FRAMEWORK_BUG_SEGFAULT),
    confidence=Confidence.SUPPORTED,
)
def two_ranks_on_a_device(seen: EvidenceSet) -> Findings:
    """Two ranks of one communicator use the same GPU, and NCCL rejected that.

    ## What it looks like
    With `NCCL_DEBUG=INFO`, one host prints `ncclCommInitRank ... rank 0 nranks 2 ... busId 100000 commId 0xaa9b...` and
    the same with `rank 1`, and then `invalid usage`.

    ## Why it happens
    The processes do not choose the device of their local rank, or each sees only one device, the same one.

    ## How we know
    Both ranks print the same bus id on the same host for the same communicator, and an exception says that NCCL was
    used in an invalid way.

    ## What to do
    Let each process use the device of its local rank.

    ## When this is wrong
    Two virtual machines have the same name and their GPUs have the same bus id. Then NCCL rejected something else.
    """
    refused = tuple(each for each in seen.all(ExceptionRaised) if any(word in each.fact.message for word in REFUSED))
    if not refused:
        return
    for members in _on_one_device(seen):
        who = sorted({each.fact.index for each in members})
        if len(who) > 1:
            yield Found(
                title=f"{say_ranks(who)} used the same device",
                because="each rank of a communicator needs its own device, and these ranks print the same one",
                evidence=(*members, *refused[:1]),
                ranks=tuple(who),
                fixes=A_DEVICE_EACH,
            )


def _on_one_device(seen: EvidenceSet) -> Iterator[tuple[Evidence[CommMember], ...]]:
    """The members of one communicator, grouped by the device and host that they print."""
    places: dict[tuple[str, str, str], list[Evidence[CommMember]]] = {}
    for each in seen.all(CommMember):
        if each.fact.device and each.fact.comm and each.rank is not None and each.rank.node:
            places.setdefault((each.rank.node, each.fact.comm, each.fact.device), []).append(each)
    yield from map(tuple, places.values())
