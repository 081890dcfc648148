# SPDX-License-Identifier: Apache-2.0
"""NUM205: another rank got other numbers from the same input and weights."""

from __future__ import annotations

from keepstep.model.facts import ComputedOdd
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.api import ranks as say_ranks


@rule(
    id="NUM205",
    cause=Cause.NUMERIC_WRONG_RESULT,
    needs=(ComputedOdd,),
    explains=(Cause.NUMERIC_NAN_OR_DIVERGENCE, Cause.NUMERIC_PLATEAU),
)
def computes_wrong(seen: EvidenceSet) -> Findings:
    """A rank computes wrong numbers before the gradients are exchanged.

    ## What it looks like
    Nothing fails, and all replicas stay equal: the exchange spreads the wrong gradients. The model becomes worse.

    ## Why it happens
    A processor or its memory is faulty, once or always; or only this rank runs some code that changes the numbers.

    ## How we know
    In a buddy step (`keepstep.guard.attach(buddy=N)`) another rank computed one rank's input once more, with the same
    weights, random numbers and buffers. The results differed, so both repeated it, and a third rank did it too.

    ## What to do
    Replace the device if it is wrong again, and go back to a checkpoint from before.

    ## When this is wrong
    If the model keeps a state of its own beside its buffers, or does something else on this rank on purpose.
    """
    told = seen.all(ComputedOdd)
    for group in seen.groups(ComputedOdd, by=lambda fact: fact.ranks):
        first = min(group, key=lambda each: each.fact.step)
        fact = first.fact
        who = say_ranks(fact.ranks)
        more = f" and {fact.tensors - 1} more" if fact.tensors > 1 else ""
        others = f"; {say_ranks(fact.others)} computed the same as each other" if len(fact.others) > 1 else ""
        is_known = len(fact.ranks) == 1
        yield Found(
            title=f"{who} {'computes' if is_known else 'compute different'} "
            f"{'wrong ' if is_known else ''}numbers before the exchange, seen at step {fact.step}",
            because=f"{shorten(fact.tensor, 60)}{more} differed, with the same input and weights{others}; "
            f"{_kind(group, told)}",
            evidence=tuple(group[:8]),
            ranks=fact.ranks,
            confidence=Confidence.SUPPORTED if is_known and fact.agreed is not None else Confidence.HYPOTHESIS,
            fixes=(
                Fix(
                    do="let the script resume from a checkpoint that was saved before",
                    code='path = keepstep.latest_good("ckpt/")',
                ),
                Fix(do="test the devices of this rank's host", command="keepstep check gpu"),
            ),
        )


def _kind(group: tuple[Evidence[ComputedOdd], ...], told: tuple[Evidence[ComputedOdd], ...]) -> str:
    """Transient, device, or program."""
    fact = group[0].fact
    if any(len(each.fact.ranks) == 1 and each.fact.ranks != fact.ranks for each in told):
        return "other ranks were odd at other times, which points to the data or the program"
    if len(fact.ranks) > 1:
        return "with two ranks it is not known which of them is wrong"
    if fact.agreed is None:
        return "it never agreed with another rank: look first for code that only this rank runs, then at its device"
    if fact.again or len(group) > 1:
        return "it is wrong again when it repeats the computation: its device, or code that only it runs"
    return "it was right when it repeated the computation, so this was transient, or the first sign of a bad device"
