# SPDX-License-Identifier: Apache-2.0
"""Shards that begin with a number of items and a table of where each begins, as MDS and LitData write them."""

from __future__ import annotations

import array
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from keepstep.base.wording import size as say_size
from keepstep.check.data.readers.source import DataSource, packed_how
from keepstep.check.data.units import UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch

LARGEST_SHARD = 1 << 30
"""A packed shard is unpacked into memory; one beyond this is not."""
LARGEST_ITEM = 256 << 20


@dataclass
class Items:
    """The items whose places are good."""

    source: DataSource
    stream: BinaryIO
    offsets: array.array[int]
    size: int

    def each(self) -> Iterator[tuple[int, int, bytes]]:
        """Number, first byte and content of each item that is there and not too large."""
        for number in range(len(self.offsets) - 1):
            begin, end = self.offsets[number], self.offsets[number + 1]
            if begin <= end <= self.size and end - begin <= LARGEST_ITEM:
                self.stream.seek(begin)
                yield number, begin, self.stream.read(end - begin)
                self.source.worked(end - begin)


def whole(source: DataSource, looked: UnitRead) -> bytes | None:
    """What a packed shard holds; None if that cannot be known."""
    how = packed_how(source.head())
    if how is None:
        looked.unread = "it is packed in a way that is not known here"
        return None
    parts, done = [], 0
    try:
        for piece in source.content(how):
            parts.append(piece)
            done += len(piece)
            if done > LARGEST_SHARD:
                looked.unread = f"it unpacks to more than {say_size(LARGEST_SHARD)}"
                return None
    except Damaged as error:
        kind = "truncated" if "missing" in str(error) else "corrupt"
        looked.broken(Bad(kind, f"unpacking failed: {error}"))
        return None
    except TooMuch as error:
        looked.unread = str(error)
        return None
    looked.packed = how
    return b"".join(parts)


def items_of(
    source: DataSource, looked: UnitRead, data: bytes | None, stated: int | None, header: int = 4
) -> Items | None:
    """The table of items, compared with the file and with what the index states."""
    stream: BinaryIO = source.stream if data is None else io.BytesIO(data)
    size = source.size if data is None else len(data)
    stream.seek(0)
    number = int.from_bytes(stream.read(4), "little")
    length = 4 * (number + 1)
    if header + length > size:
        looked.broken(Bad("truncated", f"the table of its {number:,} items is not all there", offset=0))
        return None
    if stated is not None and number != stated:
        looked.broken(Bad("index", f"it has {number:,} items, the index says {stated:,}", offset=0))
    looked.records = number
    offsets: array.array[int] = array.array("I", stream.read(length))
    if sys.byteorder == "big":
        offsets.byteswap()
    _check(looked, offsets, size, header + length)
    if not number:
        looked.broken(Bad("empty", "it has no items"))
    return Items(source, stream, offsets, size)


def _check(looked: UnitRead, offsets: array.array[int], size: int, first: int) -> None:
    """Places that go backwards, or lie beyond the end of the file."""
    before = first
    for number in range(len(offsets) - 1):
        begin, end = offsets[number], offsets[number + 1]
        if begin < before or end < begin:
            looked.broken(Bad("corrupt", "the table of items goes backwards here", number, begin))
        elif end > size:
            how = f"it ends at byte {end:,}, beyond the end of the file ({size:,})"
            looked.broken(Bad("truncated", how, number, begin))
            if begin >= size:
                looked.bad.more += len(offsets) - 2 - number
                return
        before = max(before, min(begin, size))
