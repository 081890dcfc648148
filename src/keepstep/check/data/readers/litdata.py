# SPDX-License-Identifier: Apache-2.0
"""LitData: a chunk against its index: size, number of items, the table of places, and the sizes within each item."""

from __future__ import annotations

import struct
from typing import Any

from keepstep.check.data.readers.numbered import Items, items_of, whole
from keepstep.check.data.readers.source import DataSource, packed_how
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad

FRAMED = b"LDFZ01\0\0"
LARGEST_FRAME = 1 << 30
_FRAME = struct.Struct("<IIQII")
"""First item, number of items, place, packed and unpacked size of one frame."""


def read(source: DataSource, asked: ReadRequest, about: dict[str, Any] | None = None) -> UnitRead:
    """One chunk."""
    looked = UnitRead("litdata")
    chunk = (about or {}).get("chunk") or {}
    config = (about or {}).get("config") or {}
    if config.get("encryption"):
        looked.unread = "it is encrypted"
        return looked
    formats = config.get("data_format")
    looked.fields = [Field(str(n), str(each)) for n, each in enumerate(formats)] if isinstance(formats, list) else []
    if (source.path.endswith(".parquet") or source.head(4) == b"PAR1") and config.get("item_loader") != "PyTreeLoader":
        from keepstep.check.data.readers import parquet

        return parquet.read(source, asked)
    data = None
    if config.get("compression") and packed_how(source.head()) is not None:
        data = whole(source, looked)
        if data is None:
            return looked
        looked.protected = False
    size = source.size if data is None else len(data)
    stated = chunk.get("chunk_bytes")
    if isinstance(stated, int) and stated != size:
        kind = "truncated" if size < stated else "index"
        looked.broken(Bad(kind, f"{size:,} bytes are there, the index says {stated:,}", offset=size))
    count = chunk.get("chunk_size")
    if source.head(8) == FRAMED:
        _frames(source, looked, count if isinstance(count, int) else None)
        return looked
    items = items_of(source, looked, data, count if isinstance(count, int) else None)
    if items is not None and isinstance(formats, list) and formats and not len(looked.bad):
        _items(items, len(formats), looked)
    return looked


def _items(items: Items, leaves: int, looked: UnitRead) -> None:
    """Each item begins with the size of each of its leaves. A chunk whose first item does not is of another layout."""
    for number, begin, data in items.each():
        sizes = [int.from_bytes(data[4 * n : 4 * n + 4], "little") for n in range(leaves)]
        if 4 * leaves + sum(sizes) != len(data):
            if number == 0:
                return
            looked.broken(Bad("corrupt", "the sizes of its parts do not add up", number, begin, len(data)))


def _frames(source: DataSource, looked: UnitRead, stated: int | None) -> None:
    """Items packed together: a table of places, a table of frames, then the frames, each packed by zstd."""
    import zstandard

    source.stream.seek(0)
    head = source.stream.read(24)
    number, frames = int.from_bytes(head[12:16], "little"), int.from_bytes(head[20:24], "little")
    begin = 24 + 4 * (number + 1)
    looked.records = number
    if begin + _FRAME.size * frames > source.size:
        looked.broken(Bad("truncated", "its tables are not all there", offset=24))
        return
    if stated is not None and number != stated:
        looked.broken(Bad("index", f"it has {number:,} items, the index says {stated:,}", offset=12))
    source.stream.seek(begin)
    table = source.stream.read(_FRAME.size * frames)
    for first, _, place, packed, unpacked in _FRAME.iter_unpack(table):
        if place + packed > source.size or unpacked > LARGEST_FRAME:
            how = "the file ends inside this frame" if unpacked <= LARGEST_FRAME else "its size is impossible"
            looked.broken(Bad("truncated", how, first, place, packed))
            continue
        source.stream.seek(place)
        try:
            data = zstandard.ZstdDecompressor().decompress(source.stream.read(packed), max_output_size=unpacked)
        except zstandard.ZstdError as error:
            looked.broken(Bad("corrupt", f"unpacking failed: {error}", first, place, packed))
            continue
        if len(data) != unpacked:
            how = f"it unpacks to {len(data):,} bytes instead of {unpacked:,}"
            looked.broken(Bad("corrupt", how, first, place, packed))
        source.worked(packed)
        source.decoded(len(data))
