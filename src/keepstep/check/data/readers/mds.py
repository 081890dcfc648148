# SPDX-License-Identifier: Apache-2.0
"""MDS (MosaicML Streaming): a shard against its index: size, hashes, offsets, and the columns of every sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from keepstep.check.data.readers.members import wrong_with
from keepstep.check.data.readers.numbered import Items, items_of, whole
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad

_ENDINGS = {"str": "txt", "json": "json", "jpeg": "jpg", "png": "png"}
"""Encodings whose damage shows, and the ending that stands for each."""


def read(source: DataSource, asked: ReadRequest, about: dict[str, Any] | None = None) -> UnitRead:
    """One shard. Without an index, only its offsets can be checked."""
    looked = UnitRead("mds")
    shard = (about or {}).get("shard")
    shard = shard if isinstance(shard, dict) else {}
    part = str((about or {}).get("part") or "raw_data")
    found = shard.get(part)
    info: dict[str, Any] = found if isinstance(found, dict) else {}
    looked.records = shard.get("samples") if isinstance(shard.get("samples"), int) else None
    columns = _columns(shard)
    looked.fields = [Field(name, encoding) for name, encoding, _ in columns]
    stated = info.get("bytes")
    if isinstance(stated, int) and stated != source.size:
        kind = "truncated" if source.size < stated else "index"
        looked.broken(Bad(kind, f"{source.size:,} bytes are there, the index says {stated:,}", offset=source.size))
    _compare_hashes(source, info, looked)
    if shard.get("format", "mds") != "mds":
        return looked
    items = _items(source, part, looked)
    if items is not None:
        _samples(items, columns, looked)
    return looked


def _columns(shard: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    """Name, encoding and fixed size of each column."""
    names, encodings, sizes = (_listed(shard, key) for key in ("column_names", "column_encodings", "column_sizes"))
    if not len(names) == len(encodings) == len(sizes):
        return []
    every = zip(names, encodings, sizes, strict=True)
    return [(str(name), str(kind), size if isinstance(size, int) else None) for name, kind, size in every]


def _listed(shard: dict[str, Any], key: str) -> list[Any]:
    found = shard.get(key)
    return found if isinstance(found, list) else []


def _compare_hashes(source: DataSource, info: dict[str, Any], looked: UnitRead) -> None:
    """The index may hold hashes of the file; only then a flipped bit shows."""
    hashes = info.get("hashes")
    known = {
        name: hashlib.new(name)
        for name in (hashes if isinstance(hashes, dict) else {})
        if name in hashlib.algorithms_available and not name.startswith("shake")
    }
    for piece in source.pieces():
        for each in known.values():
            each.update(piece)
    looked.protected = bool(known)
    for name, each in known.items():
        if each.hexdigest() != str(hashes[name]):  # type: ignore[index]
            looked.broken(Bad("corrupt", f"its {name} is not the one in the index"))
            return


def _items(source: DataSource, part: str, looked: UnitRead) -> Items | None:
    data = None
    if part == "zip_data":
        data = whole(source, looked)
        if data is None:
            return None
    return items_of(source, looked, data, looked.records, header=4)


def _samples(items: Items, columns: list[tuple[str, str, int | None]], looked: UnitRead) -> None:
    variable = [column for column in columns if column[2] is None]
    fixed = sum(size for _, _, size in columns if size is not None)
    for number, begin, data in items.each():
        if not columns:
            continue
        sizes = [int.from_bytes(data[4 * n : 4 * n + 4], "little") for n in range(len(variable))]
        if 4 * len(variable) + fixed + sum(sizes) != len(data):
            how = "the sizes of its columns do not add up"
            looked.broken(Bad("corrupt", how, number, begin, len(data)))
            continue
        for name, why in _wrong(columns, sizes, data):
            looked.broken(Bad(why[0], why[1], number, begin, len(data), part=f"(column {name})"))


def _wrong(
    columns: list[tuple[str, str, int | None]], sizes: list[int], data: bytes
) -> Iterator[tuple[str, tuple[str, str]]]:
    place, left = 4 * len(sizes), iter(sizes)
    for name, encoding, size in columns:
        length = next(left) if size is None else size
        ending = _ENDINGS.get(encoding)
        if ending and (why := wrong_with(f"x.{ending}", data[place : place + length])):
            yield name, why
        place += length
