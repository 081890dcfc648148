# SPDX-License-Identifier: Apache-2.0
"""SYN053: the flight recorder shows that ranks ran different collectives with the same number."""

from __future__ import annotations

from collections import Counter

from keepstep.base import wording
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, EvidenceSet, Findings, Fix, Found, RecordedCollective, rule
from keepstep.rules.sync._flight_recorders import Entry, RecordedGroup, groups, is_pending, words

_SIZES_MAY_DIFFER = tuple(
    "all_to_all alltoall gather scatter all_gather_v reduce_scatter_v split barrier new_window".split()
)
_SIZES_MUST_AGREE = tuple(
    "all_reduce allreduce broadcast all_gather _all_gather_base reduce_scatter _reduce_scatter_base reduce".split()
)


@rule(id="SYN053", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(RecordedCollective,), explains=SEEN_BY_OTHER_RANKS)
def flight_recorder_mismatch(seen: EvidenceSet) -> Findings:
    """The flight recorder shows that ranks ran different collectives at the same point of one group.

    ## What it looks like
    In the dumps of several ranks, one process group has, with the same number, an `all_reduce` on one rank
    and a `broadcast` on another, or the same operation with different sizes or dtypes.

    ## Why it happens
    A branch that depends on the rank or the data made the ranks call different collectives, in a different
    order, or with tensors of different shape (a ragged last batch, a parameter that exists on one rank only).

    ## How we know
    All ranks number the collectives of a group the same way; the recorder wrote operation, sizes and dtype.
    Before torch 2.3, only the group of all ranks has the same name everywhere; others are not compared.

    ## What to do
    Compare the two named lines, and let all ranks call the same collectives with equal tensors.

    ## When this is wrong
    An operation whose sizes may differ between ranks: we compare no sizes of all_to_all, gather and scatter.
    """
    for group in groups(seen):
        if group.between is not None or group.own_name:
            continue
        for sequence in sorted({s for entries in group.by_rank.values() for s in entries}):
            here = {r: entries[sequence] for r, entries in sorted(group.by_rank.items()) if sequence in entries}
            difference = _difference(here)
            if difference is not None and any(is_pending(e) for e in here.values()):
                yield _found(group, sequence, here, difference)
                break


def _difference(here: dict[int, Entry]) -> str | None:
    if len({_operation(e.fact.op) for e in here.values()}) > 1:
        return "operation"
    operation = _operation(next(iter(here.values())).fact.op)
    if operation.startswith(_SIZES_MAY_DIFFER) or not operation.startswith(_SIZES_MUST_AGREE):
        return None
    if len({e.fact.sizes for e in here.values() if e.fact.sizes}) > 1:
        return "sizes"
    if len({e.fact.dtype for e in here.values() if e.fact.dtype}) > 1:
        return "dtype"
    return None


def _operation(name: str) -> str:
    """The bare name: torch has had ``nccl:all_reduce``, ``all_reduce_sum`` and the like."""
    return name.rpartition(":")[2].strip()


def _found(group: RecordedGroup, sequence: int, here: dict[int, Entry], difference: str) -> Found:
    def kind(entry: Entry) -> str:
        if difference == "operation":
            return _operation(entry.fact.op)
        return f"{_operation(entry.fact.op)} of {entry.fact.sizes if difference == 'sizes' else entry.fact.dtype}"

    counts = Counter(kind(e) for e in here.values())
    usual = counts.most_common(1)[0][0]
    odd = [r for r, e in here.items() if kind(e) != usual]
    clear = counts[usual] > len(odd)
    sides = []
    for each in counts:
        sides.append(f"{wording.ranks(r for r, e in here.items() if kind(e) == each)} ran {each}")
    return Found(
        title=f"at collective #{sequence} {wording.listing(sides[:3])}",
        because=(
            f"in group {group.name}, #{sequence} differs in {difference}: "
            + wording.listing(f"rank {r} ran {words(e)}" for r, e in list(here.items())[:4])
        ),
        evidence=tuple(here[r] for r in odd) + tuple(e for r, e in here.items() if r not in odd),
        ranks=tuple(odd) if clear else tuple(here),
        fixes=(
            Fix(
                do="compare these lines, and let every rank call the same collectives in the same order, "
                "with equal tensors"
            ),
        ),
    )
