# SPDX-License-Identifier: Apache-2.0
"""Contiguous pieces: JAX's slices by process, and Grain."""

from __future__ import annotations

from keepstep.check.data.plan.batches import batched
from keepstep.check.data.plan.runs import Stream, every
from keepstep.check.data.plan.types import Parts, PlanRequest, Split


def jax_slices(asked: PlanRequest) -> Split:
    """``data[i * n : (i + 1) * n]`` with ``n = len(data) // jax.process_count()``: the remainder is read by no rank."""
    each = asked.records // asked.ranks
    return _pieces(asked, [range(rank * each, (rank + 1) * each) for rank in range(asked.ranks)], readers=1)


def grain(asked: PlanRequest) -> Split:
    """Grain's ``DataLoader`` with ``ShardByJaxProcess()``.

    Its pieces differ by one record at most, but it reads only as many of each as all ranks have (seen in 0.2.18).
    """
    each = asked.records // asked.ranks
    pieces = [even_split(asked.records, asked.ranks, rank)[:each] for rank in range(asked.ranks)]
    return _pieces(asked, pieces, asked.readers)


def grain_dropping(asked: PlanRequest) -> Split:
    """Grain with ``ShardByJaxProcess(drop_remainder=True)``: what does not divide among the ranks is left out."""
    each = asked.records // asked.ranks
    return _pieces(asked, [range(rank * each, (rank + 1) * each) for rank in range(asked.ranks)], asked.readers)


def strided(asked: PlanRequest) -> Split:
    """``data[rank::ranks]``, as in Grain's ``MapDataset``."""
    whole = range(asked.records)
    return _pieces(asked, [whole[rank :: asked.ranks] for rank in range(asked.ranks)], readers=1)


def even_split(records: int, parts: int, part: int) -> range:
    """A contiguous part; the first ones have one record more if the number does not divide."""
    low, more = divmod(records, parts)
    return range(low * part + min(part, more), low * (part + 1) + min(part + 1, more))


def _pieces(asked: PlanRequest, own: list[range], readers: int) -> Split:
    """Each piece read by workers in turn, each of which makes batches of its own."""
    shares = []
    for rank, piece in enumerate(own):
        whole: Stream = (piece,) if piece else ()
        streams = [every(whole, worker, readers) for worker in range(readers)]
        shares.append(batched(rank, streams, asked.batch, asked.drop_last))
    return Split(shares=tuple(shares), parts=Parts.DISJOINT, seen=sum(each.records for each in shares))
