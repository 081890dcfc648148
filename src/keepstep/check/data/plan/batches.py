# SPDX-License-Identifier: Apache-2.0
"""From the records of a rank to its batches: how many steps, of how many rows."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.check.data.plan.runs import Stream, count, head
from keepstep.check.data.plan.types import Share


def batched(rank: int, streams: Sequence[Stream], batch: int, drop_last: bool) -> Share:
    """A rank whose readers each make batches of their own, as the workers of a PyTorch ``IterableDataset`` do."""
    kept, steps, dropped, rows, last = [], 0, 0, set(), None
    for stream in streams:
        full, rest = divmod(count(stream), batch)
        steps += full + (1 if rest and not drop_last else 0)
        if full:
            rows.add(batch)
        if rest and not drop_last:
            rows.add(rest)
        dropped += rest if drop_last else 0
        kept.append(head(stream, full * batch) if drop_last else stream)
        last = rest if rest and not drop_last else (batch if full else None)
    return Share(
        rank=rank,
        streams=tuple(kept),
        steps=steps,
        rows=tuple(sorted(rows, reverse=True)),
        dropped=dropped,
        last_rows=last if len(streams) == 1 or len(rows) == 1 else None,
    )


def rebatched(rank: int, stream: Stream, sizes: Sequence[int]) -> Share:
    """A rank whose batches take these sizes in turn, the last one what is left (``tf.data``'s ``rebatch``)."""
    left = count(stream)
    cycles, left = divmod(left, sum(sizes))
    steps, rows = cycles * len(sizes), set(sizes) if cycles else set()
    last = sizes[-1] if cycles else None
    for size in sizes:
        if size and not left:
            break
        last = min(size, left)
        rows.add(last)
        steps, left = steps + 1, left - last
    return Share(rank=rank, streams=(stream,), steps=steps, rows=tuple(sorted(rows, reverse=True)), last_rows=last)
