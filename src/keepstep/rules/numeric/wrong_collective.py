# SPDX-License-Identifier: Apache-2.0
"""NUM020: a collective gave a wrong answer."""

from __future__ import annotations

from keepstep.base.wording import count, listing
from keepstep.base.wording import ranks as say_ranks
from keepstep.model.facts import CollectiveTried
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule

MOST_PAIRS = 4


@rule(id="NUM020", cause=Cause.NUMERIC_WRONG_RESULT, needs=(CollectiveTried,), confidence=Confidence.ESTABLISHED)
def wrong_collective(seen: EvidenceSet) -> Findings:
    """A collective gave other numbers than it must: a training would go on with wrong gradients, without an error.

    ## What it looks like
    Nothing, in a training: the loss is a little worse, or diverges days later. `keepstep check collectives` shows
    which collective, dtype and size, on which ranks, and which elements.

    ## Why it happens
    A bug in the library (JAX 0.10 on CPU gives wrong sums in `psum_scatter` between several groups at once,
    jax-ml/jax#40830), a link or a device that damages data, or a driver that says "peer to peer works" where it does
    not.

    ## How we know
    Every rank gave whole numbers that differ from rank to rank and from element to element, and whose sums are
    exact in their type. Every element of every result was compared. Nothing but the collective lies in between.

    ## What to do
    Avoid that collective, size or transport until it is right: another version of the framework, another backend, or
    NCCL without peer to peer and InfiniBand. If only one pair of ranks is wrong, take their hosts out.

    ## When this is wrong
    It is not: the answers are known.
    """
    wrong = [each for each in seen.all(CollectiveTried) if each.fact.wrong]
    for of_one in _by_operation(wrong):
        facts = [each.fact for each in of_one]
        who = sorted({rank for fact in facts for rank, *_ in fact.wrong})
        sizes = len({(fact.size, fact.dtype, fact.members) for fact in facts})
        pairs = sorted({fact.pair for fact in facts if fact.pair})
        alone = listing(f"{a} and {b}" for a, b in pairs)
        only = f"; of single pairs, {alone} are wrong" if 0 < len(pairs) <= MOST_PAIRS else ""
        least = min((fact.smallest for fact in facts if fact.smallest), key=len, default=())
        only = f"; the smallest group that is wrong: {say_ranks(least)}" if least and not only else only
        common = set.intersection(*(set(pair) for pair in pairs)) if len(pairs) > 1 else set()
        only = f"; {say_ranks(common)} is in all {len(pairs)} single pairs that are wrong" if common else only
        first = facts[0]
        yield Found(
            title=f"{first.operation} gives wrong numbers on {say_ranks(who)} ({first.framework}, {first.backend})",
            because=f"{count(sizes, 'trial')} with known answers came out wrong{only}",
            evidence=tuple(of_one[:6]),
            ranks=tuple(who),
            fixes=(
                Fix(do="try another version of the framework or another backend before you train with this one"),
                Fix(
                    do="with NCCL, see whether it is a transport",
                    command="NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 keepstep check collectives",
                ),
            ),
        )


def _by_operation(wrong: list[Evidence[CollectiveTried]]) -> list[list[Evidence[CollectiveTried]]]:
    found: dict[tuple[str, str], list[Evidence[CollectiveTried]]] = {}
    for each in wrong:
        found.setdefault((each.fact.framework, each.fact.operation), []).append(each)
    return list(found.values())
