# SPDX-License-Identifier: Apache-2.0
"""Zarr arrays in folders: every chunk that is there, decoded by zarr. A chunk that is not there is the fill value."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Iterator

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.base.wording import shorten
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.units import DataUnit, Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad

LARGEST_CHUNK = 1 << 30
MOST_CHUNKS = 10_000_000


def read_store(unit: DataUnit, asked: ReadRequest, told: Callable[[int], None]) -> UnitRead:
    """One array."""
    looked = UnitRead("zarr", digest=_digest(unit.path, told))
    about, why = _metadata(unit.path)
    if why:
        return looked.broken(Bad("corrupt", why))
    import zarr

    try:
        opened = zarr.open_array(unit.path, mode="r")
    except Exception as error:  # zarr and its codecs raise anything for damaged metadata
        return looked.broken(Bad("corrupt", f"its metadata cannot be used: {shorten(str(error), 120)}"))
    looked.records = opened.shape[0] if opened.shape else 1
    looked.fields = [Field("values", str(opened.dtype), str(list(opened.shape[1:])))]
    looked.protected = "crc32c" in about
    if math.prod(opened.chunks) * opened.dtype.itemsize > LARGEST_CHUNK:
        looked.unread = "its chunks are too large to be read"
        return looked
    numbers = Numbers(asked)
    grid = [range(-(-length // step)) for length, step in zip(opened.shape, opened.chunks, strict=True)]
    for place in itertools.islice(itertools.product(*grid), MOST_CHUNKS):
        path = _chunk(unit.path, place, about)
        if path is None:
            continue
        first = place[0] * opened.chunks[0] if place else 0
        try:
            where = tuple(
                slice(n * step, min((n + 1) * step, end))
                for n, step, end in zip(place, opened.chunks, opened.shape, strict=True)
            )
            values = opened[where]
            if asked.values and opened.shape:
                numbers.array("values", first, values)
        except Exception as error:  # a codec's own errors
            part = f"(chunk {os.path.relpath(path, unit.path)})"
            looked.broken(Bad("corrupt", f"cannot be decoded: {shorten(str(error), 120)}", first, part=part))
        told(0)
    looked.odd = numbers.odd()
    return looked


def _metadata(folder: str) -> tuple[str, str]:
    """The array's description as text, or why there is none."""
    for name in ("zarr.json", ".zarray"):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with open_regular(path) as stream:
            data = stream.read(16 << 20)
        try:
            foreign_json.loads(data)
        except ValueError as error:
            return "", f"{name} is not JSON: {str(error)[:80]}"
        return data.decode("utf-8", "replace"), ""
    return "", "its metadata is missing"


def _chunk(folder: str, place: tuple[int, ...], about: str) -> str | None:
    """The file of a chunk, if it is there. A shard holds several chunks, so its own place is tried too."""
    names = [".".join(map(str, place)), "/".join(map(str, place)), "/".join(("c", *map(str, place)))]
    names += [".".join(("c", *map(str, place)))]
    if "sharding_indexed" in about:
        return folder  # zarr finds the shard
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    return None


def _digest(folder: str, told: Callable[[int], None]) -> str:
    """Over the names and contents of all files, in order."""
    found = hashlib.blake2b(digest_size=16)
    for path in _files(folder):
        found.update(os.path.relpath(path, folder).encode("utf-8", "surrogateescape") + b"\0")
        with open_regular(path) as stream:
            while data := stream.read(1 << 20):
                found.update(data)
                told(len(data))
    return f"blake2b:{found.hexdigest()}"


def _files(folder: str) -> Iterator[str]:
    for here, below, names in os.walk(folder):
        below.sort()
        yield from (os.path.join(here, name) for name in sorted(names))
