# SPDX-License-Identifier: Apache-2.0
"""Libraries that stream shards: WebDataset, Hugging Face datasets, LitData and MosaicML's MDS."""

from __future__ import annotations

from keepstep.check.data.plan.batches import batched
from keepstep.check.data.plan.runs import Stream, between, count, every, whole_files
from keepstep.check.data.plan.slices import even_split
from keepstep.check.data.plan.torch import split_over_workers
from keepstep.check.data.plan.types import Parts, PlanRequest, Split

NO_SAMPLES = "No samples found in dataset; perhaps you have fewer shards than workers."


def webdataset(asked: PlanRequest) -> Split:
    """WebDataset with ``nodesplitter=split_by_node``: every N-th shard, and of those every W-th for each worker."""
    files = whole_files([each.records for each in asked.files])
    streams = [
        tuple(run for run in files[rank :: asked.ranks][worker :: asked.readers] if run)
        for rank in range(asked.ranks)
        for worker in range(asked.readers)
    ]
    split = split_over_workers(asked, streams, by_file=True)
    empty = tuple(sorted({index // asked.readers for index, stream in enumerate(streams) if not stream}))
    if not empty:
        return split
    return Split(
        shares=split.shares, parts=split.parts, seen=split.seen, by_file=True, refusal=NO_SAMPLES, refusing=empty
    )


def huggingface(asked: PlanRequest) -> Split:
    """``split_dataset_by_node`` on an ``IterableDataset``.

    Whole files if their number divides evenly among the ranks. Else every rank reads all files and keeps every N-th
    record; its workers divide the files first.
    """
    files = whole_files([each.records for each in asked.files])
    even = len(files) % asked.ranks == 0
    streams: list[Stream] = []
    for rank in range(asked.ranks):
        own = files[rank :: asked.ranks] if even else files
        for worker in range(asked.readers):
            stream = tuple(run for run in own[worker :: asked.readers] if run)
            streams.append(stream if even else every(stream, rank, asked.ranks))
    return split_over_workers(asked, streams, by_file=even)


def huggingface_map(asked: PlanRequest) -> Split:
    """``split_dataset_by_node`` on a map-style ``Dataset``: one contiguous piece per rank."""
    shares = []
    for rank in range(asked.ranks):
        own = even_split(asked.records, asked.ranks, rank)
        shares.append(batched(rank, ((own,) if own else (),), asked.batch, asked.drop_last))
    return Split(shares=tuple(shares), parts=Parts.DISJOINT, seen=sum(each.records for each in shares))


def litdata(asked: PlanRequest) -> Split:
    """LitData's ``StreamingDataset``, which drops what does not divide as soon as there is more than one rank."""
    return _litdata(asked, drop=asked.ranks > 1)


def litdata_keeping(asked: PlanRequest) -> Split:
    """LitData with ``drop_last=False``: the last rank gets what is left."""
    return _litdata(asked, drop=False)


def _litdata(asked: PlanRequest, drop: bool) -> Split:
    records = asked.records
    per_rank = records // asked.batch // asked.ranks
    base, more = divmod(per_rank, asked.readers)
    sizes = [(base + (worker < more)) * asked.batch for worker in range(asked.readers)] * asked.ranks
    if not drop:
        sizes[(asked.ranks - 1) * asked.readers + more] += records - sum(sizes)
    streams: list[Stream] = []
    whole: Stream = (range(records),) if records else ()
    at = 0
    for size in sizes:
        streams.append(between(whole, at, at + size))
        at += size
    return split_over_workers(asked, streams)


def mds(asked: PlanRequest) -> Split:
    """MosaicML's ``StreamingDataset``, with as many canonical nodes as nodes.

    Each node gets a contiguous piece, its ranks every R-th record of it. Pieces are padded to the same length with
    records of their own.
    """
    if asked.ranks % asked.nodes:
        raise ValueError(f"{asked.ranks} ranks do not divide evenly among {asked.nodes} nodes")
    if asked.records < asked.nodes:
        raise ValueError(f"with fewer records ({asked.records}) than nodes ({asked.nodes}), MDS repeats in other ways")
    local = asked.ranks // asked.nodes
    shares, seen, shared = [], 0, 0
    for node in range(asked.nodes):
        start, stop = (k * asked.records // asked.nodes for k in (node, node + 1))
        piece: Stream = (range(start, stop),)
        if stop - start < -(-asked.records // asked.nodes):
            piece = (*piece, range(stop - 1, stop))
        piece = _padded(piece, local)
        own = [
            batched(node * local + rank, (every(piece, rank, local),), asked.batch, asked.drop_last)
            for rank in range(local)
        ]
        shares += own
        each, both = _distinct([share.streams[0] for share in own])
        seen, shared = seen + each, shared + both
    return Split(
        shares=tuple(shares),
        parts=Parts.PADDED if sum(each.records for each in shares) > seen else Parts.DISJOINT,
        seen=seen,
        shared=shared,
        shuffled=True,
    )


def _padded(piece: Stream, ranks: int) -> Stream:
    """A node's records, filled up for its ranks with some from near the end, or with all again where they are few."""
    size = count(piece)
    missing = -size % ranks
    if not missing:
        return piece
    if ranks + missing - 1 <= size:
        return (*piece, *between(piece, size - ranks - missing + 1, size - ranks + 1))
    again, rest = divmod(missing, size)
    return (*piece, *(piece * again), *between(piece, 0, rest))


def _distinct(streams: list[Stream]) -> tuple[int, int]:
    """How many records these streams of one node have, and how many of them are in more than one.

    All but the single ones are strides of one range, so only the single ones can be repeated.
    """
    single = {run[0] for stream in streams for run in stream if len(run) == 1}
    owners = {
        record: [rank for rank, stream in enumerate(streams) if any(record in run for run in stream)]
        for record in single
    }
    long = sum(len(run) for stream in streams for run in stream if len(run) > 1)
    alone = sum(not any(record in run for stream in streams for run in stream if len(run) > 1) for record in single)
    return long + alone, sum(len(ranks) > 1 for ranks in owners.values())
