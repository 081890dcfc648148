# SPDX-License-Identifier: Apache-2.0
"""PyTorch: ``DistributedSampler`` over a map-style dataset, and ``IterableDataset`` with worker processes."""

from __future__ import annotations

import random

from keepstep.check.data.plan.batches import batched
from keepstep.check.data.plan.runs import Stream, every, whole_files
from keepstep.check.data.plan.types import Parts, PlanRequest, Split

MOST_ORDERED = 5_000_000
"""Beyond this many records, the shuffled order is not worked out."""
_WORDS, _FACTOR, _MASK = 624, 1812433253, 0xFFFFFFFF


def sampler(asked: PlanRequest) -> Split:
    """``DistributedSampler``: every N-th record of the order, which is padded with its own beginning."""
    return _sampled(asked, -(-asked.records // asked.ranks))


def sampler_dropping(asked: PlanRequest) -> Split:
    """``DistributedSampler(drop_last=True)``: what does not divide among the ranks is left out."""
    return _sampled(asked, asked.records // asked.ranks)


def _sampled(asked: PlanRequest, each: int) -> Split:
    records, ranks = asked.records, asked.ranks
    shares = [
        batched(rank, (_places(rank, each, records, ranks),), asked.batch, asked.drop_last) for rank in range(ranks)
    ]
    given = (each // asked.batch * asked.batch if asked.drop_last else each) * ranks
    seen = min(given, records)
    twice: dict[int, set[int]] = {}
    for place in range(records, given):
        twice.setdefault(place % records, {place % records % ranks}).add(place % ranks)
    return Split(
        shares=tuple(shares),
        parts=Parts.PADDED if given > records else Parts.DISJOINT,
        seen=seen,
        shared=sum(len(owners) > 1 for owners in twice.values()),
        shuffled=True,
    )


def _places(rank: int, each: int, records: int, ranks: int) -> Stream:
    """The places in the order that a rank gets: its own, and at most one that pads it."""
    if not records:
        return ()
    own = range(rank, min(records, each * ranks), ranks)
    padding = [
        range(place % records, place % records + 1) for place in range(rank + len(own) * ranks, each * ranks, ranks)
    ]
    return tuple(run for run in (own, *padding) if run)


def sampler_order(records: int, seed: int, epoch: int) -> list[int]:
    """The order of ``DistributedSampler(shuffle=True)`` after ``set_epoch(epoch)``: that of ``torch.randperm`` on CPUs.

    PyTorch's generator is the Mersenne Twister that Python has as well, from another seed.
    """
    words = [(seed + epoch) & _MASK]
    for index in range(1, _WORDS):
        words.append((_FACTOR * (words[-1] ^ (words[-1] >> 30)) + index) & _MASK)
    source = random.Random()
    source.setstate((3, (*words, _WORDS), None))
    order = list(range(records))
    for place in range(records - 1):
        other = place + source.getrandbits(32) % (records - place)
        order[place], order[other] = order[other], order[place]
    return order


def iterable_whole(asked: PlanRequest) -> Split:
    """An ``IterableDataset`` that does not ask who it is: every worker of every rank yields everything."""
    whole: Stream = (range(asked.records),) if asked.records else ()
    shares = [batched(rank, [whole] * asked.readers, asked.batch, asked.drop_last) for rank in range(asked.ranks)]
    seen = asked.records // asked.batch * asked.batch if asked.drop_last else asked.records
    return Split(shares=tuple(shares), parts=Parts.COPIES, seen=seen, shared=seen if asked.ranks > 1 else 0)


def iterable_records(asked: PlanRequest) -> Split:
    """An ``IterableDataset`` whose workers, counted over all ranks, take every M-th record."""
    whole: Stream = (range(asked.records),) if asked.records else ()
    readers = asked.ranks * asked.readers
    return split_over_workers(asked, [every(whole, reader, readers) for reader in range(readers)])


def iterable_files(asked: PlanRequest) -> Split:
    """An ``IterableDataset`` whose workers, counted over all ranks, take every M-th file."""
    files = whole_files([each.records for each in asked.files])
    readers = asked.ranks * asked.readers
    streams = [tuple(run for run in files[reader::readers] if run) for reader in range(readers)]
    return split_over_workers(asked, streams, by_file=True)


def split_over_workers(asked: PlanRequest, streams: list[Stream], by_file: bool = False) -> Split:
    """Disjoint streams, the first ``readers`` of them those of rank 0, and so on."""
    shares = [
        batched(rank, streams[rank * asked.readers : (rank + 1) * asked.readers], asked.batch, asked.drop_last)
        for rank in range(asked.ranks)
    ]
    return Split(shares=tuple(shares), parts=Parts.DISJOINT, seen=sum(each.records for each in shares), by_file=by_file)
