# SPDX-License-Identifier: Apache-2.0
"""tf.data: the four policies of auto-sharding under a strategy, and an explicit ``shard()``.

Under a strategy, ``batch`` is the global batch, which TensorFlow divides among the ranks. With ``shard()`` in the
script's own pipeline, it is the batch of one rank.
"""

from __future__ import annotations

from keepstep.check.data.plan.batches import batched, rebatched
from keepstep.check.data.plan.runs import Stream, count, every, head, whole_files
from keepstep.check.data.plan.types import AtEnd, Parts, PlanRequest, Share, Split

TOO_FEW = (
    "Could not apply FILE based sharding: the dataset only has {files} file(s), which is not enough for the required"
    " {ranks} shards/workers"
)


def by_file(asked: PlanRequest) -> Split:
    """``AutoShardPolicy.FILE``, and ``AUTO`` on files: each rank reads every N-th file."""
    shares = []
    for rank in range(asked.ranks):
        stream = _files(asked, rank)
        kept = head(stream, count(stream) // asked.batch * asked.batch) if asked.drop_last else stream
        share = rebatched(rank, kept, batch_sizes(asked.batch, asked.ranks, rank))
        shares.append(_dropping(share, count(stream)))
    few = len(asked.files) < asked.ranks
    return Split(
        shares=tuple(shares),
        parts=Parts.DISJOINT,
        seen=sum(each.records for each in shares),
        at_end=AtEnd.FED_EMPTY,
        refusal=TOO_FEW.format(files=len(asked.files), ranks=asked.ranks) if few else None,
        refusing=tuple(range(len(asked.files))) if few else (),
        by_file=True,
    )


def by_data(asked: PlanRequest) -> Split:
    """``AutoShardPolicy.DATA``, and ``AUTO`` without files: each global batch is cut into one piece per rank."""
    records = asked.records
    full, rest = divmod(records, asked.batch)
    rest = 0 if asked.drop_last else rest
    shares = []
    for rank in range(asked.ranks):
        own, own_rest = _piece(asked.batch, asked.ranks, rank), _piece(rest, asked.ranks, rank)
        # one run per row of the piece would be exact in order; the picture and the counts need only which records
        runs = [range(start, full * asked.batch, asked.batch) for start in own] if full else []
        if own_rest:
            runs.append(range(full * asked.batch + own_rest.start, full * asked.batch + own_rest.stop))
        sizes = ([len(own)] if full else []) + ([len(own_rest)] if rest else [])
        shares.append(
            Share(
                rank=rank,
                streams=(tuple(run for run in runs if run),),
                steps=full + (1 if rest else 0),
                rows=tuple(sorted(set(sizes), reverse=True)),
                last_rows=sizes[-1] if sizes else None,
            )
        )
    return Split(shares=tuple(shares), parts=Parts.DISJOINT, seen=full * asked.batch + rest, at_end=AtEnd.FED_EMPTY)


def off(asked: PlanRequest) -> Split:
    """``AutoShardPolicy.OFF``: every rank reads everything, in batches of its part of the global batch."""
    records = asked.records
    kept = records // asked.batch * asked.batch if asked.drop_last else records
    whole: Stream = (range(kept),) if kept else ()
    shares = [
        _dropping(rebatched(rank, whole, batch_sizes(asked.batch, asked.ranks, rank)), records)
        for rank in range(asked.ranks)
    ]
    return Split(
        shares=tuple(shares),
        parts=Parts.COPIES,
        seen=kept,
        shared=kept if asked.ranks > 1 else 0,
        at_end=AtEnd.FED_EMPTY,
    )


def shard_records(asked: PlanRequest) -> Split:
    """``dataset.shard(ranks, rank)`` on records, then ``batch(batch)``."""
    records: Stream = (range(asked.records),) if asked.records else ()
    return _own(asked, [every(records, rank, asked.ranks) for rank in range(asked.ranks)])


def shard_files(asked: PlanRequest) -> Split:
    """``shard(ranks, rank)`` on the names of the files, then reading and ``batch(batch)``."""
    return _own(asked, [_files(asked, rank) for rank in range(asked.ranks)], by_file=True)


def _own(asked: PlanRequest, streams: list[Stream], by_file: bool = False) -> Split:
    shares = tuple(batched(rank, (each,), asked.batch, asked.drop_last) for rank, each in enumerate(streams))
    return Split(shares=shares, parts=Parts.DISJOINT, seen=sum(each.records for each in shares), by_file=by_file)


def batch_sizes(batch: int, ranks: int, rank: int) -> list[int]:
    """The batches that a rank makes of a global batch, in turn; over all ranks, each step adds up to it."""
    low, extra = divmod(batch, ranks)
    sizes = [low + 1] * extra + [low] * (ranks - extra)
    return sizes[rank:] + sizes[:rank]


def _piece(rows: int, ranks: int, rank: int) -> range:
    """The rows of a batch that a rank gets when all pieces but the last are of the same size."""
    size = -(-rows // ranks)
    return range(min(rank * size, rows), min((rank + 1) * size, rows))


def _files(asked: PlanRequest, rank: int) -> Stream:
    return tuple(run for run in whole_files([each.records for each in asked.files])[rank :: asked.ranks] if run)


def _dropping(share: Share, given: int) -> Share:
    return Share(
        rank=share.rank,
        streams=share.streams,
        steps=share.steps,
        rows=share.rows,
        last_rows=share.last_rows,
        dropped=given - share.records,
    )
