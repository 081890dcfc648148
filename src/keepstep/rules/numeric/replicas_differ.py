# SPDX-License-Identifier: Apache-2.0
"""NUM204: the guard saw replicas that must hold the same numbers differ."""

from __future__ import annotations

from keepstep.model.facts import OddOfTwo, ReplicaOdd
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.api import ranks as say_ranks

WHOLE = 0.5
"""Where such a share of the tensors differs at once, a rank took other steps: no flipped bit does that."""


@rule(
    id="NUM204",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(ReplicaOdd,),
    explains=(Cause.NUMERIC_NAN_OR_DIVERGENCE, Cause.NUMERIC_PLATEAU),
)
def replicas_differ(seen: EvidenceSet) -> Findings:
    """Replicas of the model, equal until then, hold different numbers.

    ## What it looks like
    Nothing fails. The loss may jump, or the model becomes a little worse; the next checkpoint holds the wrong numbers.

    ## Why it happens
    A processor, its memory or a cable changed bits after the gradients were exchanged; or the program changed weights
    on some ranks only (assigned them per replica, loaded or clipped them on one rank).

    ## How we know
    Now and then each rank adds up the bits of its parameters and of the optimizer's state, and the guards compare the
    sums. They were equal before. With three or more replicas the odd one is named. With two (PyTorch), both make some
    steps of the optimizer twice, on copies, and compare bits, double precision, and what the other one got.

    ## What to do
    Go back to the checkpoint before. If it is the same rank again, replace its device or look for code that only this
    rank runs.

    ## When this is wrong
    If the program makes replicas differ on purpose, in the middle of a run and without telling the framework.
    """
    told = seen.all(ReplicaOdd)
    for group in seen.groups(ReplicaOdd, by=lambda fact: (fact.ranks, fact.devices)):
        first = min(group, key=lambda each: each.fact.step)
        fact = first.fact
        told_later = [e for e in seen.all(OddOfTwo) if not fact.majority and e.fact.of == fact.ranks][:1]
        named = told_later[0].fact.ranks if told_later else ()
        sure = bool(told_later) and told_later[0].fact.sure
        who = say_ranks(fact.ranks) if fact.ranks else " and ".join(fact.devices)
        title = (
            f"{who} {'holds' if len(fact.ranks or fact.devices) == 1 else 'hold'} wrong numbers"
            if fact.majority
            else f"{say_ranks(named)} {'' if sure else 'probably '}holds wrong numbers"
            if named
            else f"the replicas of {who} differ: one of them holds wrong numbers"
        )
        since = f", and it was equal at step {fact.agreed}" if fact.agreed is not None else ""
        more = f" and {fact.tensors - 1} of {(fact.of or fact.tensors) - 1} other tensors" if fact.tensors > 1 else ""
        yield Found(
            title=f"{title} since step {fact.step}",
            because=f"{shorten(fact.tensor, 60)}{more} differed at step {fact.step}{since}; "
            + (_of_two(told_later[0].fact) if told_later else _kind(group, told)),
            evidence=(*group[:8], *told_later),
            ranks=named or fact.ranks,
            confidence=None if fact.majority or sure or not named else Confidence.HYPOTHESIS,
            fixes=(
                Fix(
                    do="let the script resume from a checkpoint that was saved before",
                    code='path = keepstep.latest_good("ckpt/")',
                ),
                Fix(do="if it happens to this rank again, run it on another device, and look for code of its own"),
            ),
        )


def _of_two(fact: OddOfTwo) -> str:
    """What the two found out when they made some steps twice."""
    if not fact.ranks:
        return f"which of the two is wrong is not established: {fact.why}"
    return f"both repeated their next steps, and of {say_ranks(fact.ranks)} {fact.why}"


def _kind(group: tuple[Evidence[ReplicaOdd], ...], told: tuple[Evidence[ReplicaOdd], ...]) -> str:
    """What the looks so far tell about the reason."""
    times = len({each.fact.step for each in group})
    fact = group[0].fact
    if fact.tensors >= max(3, WHOLE * (fact.of or fact.tensors)):
        return "many tensors differ at once, so a rank took other steps than the others"
    if len(group) < len(told):
        return "other replicas were odd at other times, which points to the program"
    if times > 1:
        return "it was odd again later: its device, or code that only it runs"
    return "this was seen once, which may be transient (a flipped bit) or the first sign of a bad device"
