# SPDX-License-Identifier: Apache-2.0
"""The index of a TensorFlow checkpoint: a sorted table whose entries say where in the data files each tensor lies."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from keepstep.parse.formats.data.example_proto import NotAnExample, fields, varint

MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
MOST_SHARDS = 100_000
_SHARDS = 1
_SHARD, _OFFSET, _SIZE = 3, 4, 5


def is_table(data: bytes) -> bool:
    return len(data) >= _FOOTER and struct.unpack_from("<Q", data, len(data) - 8) == (MAGIC,)


def bytes_of_shards(data: bytes) -> dict[int, int]:
    """How many bytes each data file must have at least, by its number. Raises ``ValueError``."""
    try:
        return _read(memoryview(data))
    except (IndexError, struct.error, NotAnExample):
        raise ValueError("its table is damaged") from None


def _read(data: memoryview) -> dict[int, int]:
    place, handles = len(data) - _FOOTER, list[int]()
    while len(handles) < 4:
        number, place = varint(data, place)
        handles.append(number)
    found: dict[int, int] = {}
    for _, handle in _entries(data, *handles[2:]):
        start, place = varint(handle, 0)
        for key, value in _entries(data, start, varint(handle, place)[0]):
            known = {name: each for name, _, each in fields(value) if isinstance(each, int)}
            if not key:
                found |= dict.fromkeys(range(min(known.get(_SHARDS, 1), MOST_SHARDS)), 0)
            elif known.get(_SIZE):
                shard = known.get(_SHARD, 0)
                found[shard] = max(found.get(shard, 0), known.get(_OFFSET, 0) + known[_SIZE])
    return found


def _entries(data: memoryview, start: int, size: int) -> Iterator[tuple[bytes, memoryview]]:
    """Of one block. The byte after it says how it is packed; TensorFlow packs none of these."""
    if start + size >= len(data) or data[start + size]:
        raise IndexError
    block = data[start : start + size]
    (restarts,) = struct.unpack_from("<I", block, size - 4)
    end, place, key = size - 4 * (restarts + 1), 0, b""
    while place < end:
        shared, place = varint(block, place)
        own, place = varint(block, place)
        length, place = varint(block, place)
        key = key[:shared] + bytes(block[place : place + own])
        place += own + length
        if place > end:
            raise IndexError
        yield key, block[place - length : place]
