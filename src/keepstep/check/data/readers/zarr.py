# SPDX-License-Identifier: Apache-2.0
"""Zarr arrays in folders: every chunk that is there, decoded by zarr. A chunk that is not there is the fill value."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.wording import shorten, size
from keepstep.check.data.inside import LeadsOut, leads_out, open_inside
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import ALWAYS_VALUES, MORE, DataSource
from keepstep.check.data.readers.zarr_codecs import forbid_pickles, refused
from keepstep.check.data.units import DataUnit, Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import MOST_TIMES, TooMuch

LARGEST_CHUNK = 1 << 30
LARGEST_METADATA = 16 << 20
MOST_CHUNKS = 10_000_000


def read_store(unit: DataUnit, asked: ReadRequest, told: Callable[[int], None]) -> UnitRead:
    """One array."""
    work = _Work(unit, asked, told)
    looked = UnitRead("zarr", digest=work.digest())
    about, why = _metadata(unit)
    if why:
        return looked.broken(Bad("corrupt", why))
    looked.unread = next(filter(None, map(refused, about)), "")
    if looked.unread:
        return looked
    text = json.dumps(about)
    import zarr

    forbid_pickles()
    try:
        opened = zarr.open_array(unit.path, mode="r")
    except Exception as error:  # zarr and its codecs raise anything for damaged metadata
        return looked.broken(Bad("corrupt", f"its metadata cannot be used: {shorten(str(error), 120)}"))
    looked.records = opened.shape[0] if opened.shape else 1
    looked.fields = [Field("values", str(opened.dtype), str(list(opened.shape[1:])))]
    looked.protected = "crc32c" in text
    if math.prod(opened.chunks) * opened.dtype.itemsize > LARGEST_CHUNK:
        looked.unread = "its chunks are too large to be read"
        return looked
    numbers = Numbers(asked)
    grid = [range(-(-length // step)) for length, step in zip(opened.shape, opened.chunks, strict=True)]
    for place in itertools.islice(itertools.product(*grid), MOST_CHUNKS):
        path = _chunk(unit.path, place, text)
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
            done = getattr(values, "nbytes", 0)
        except Exception as error:  # a codec's own errors
            part = f"(chunk {os.path.relpath(path, unit.path)})"
            looked.broken(Bad("corrupt", f"cannot be decoded: {shorten(str(error), 120)}", first, part=part))
            done = 0
        work.decoded(done)
    looked.odd = numbers.odd()
    return looked


def _metadata(unit: DataUnit) -> tuple[list[dict[str, Any]], str]:
    """The array's description, or why there is none. Where there are two, zarr's version decides: both have to do."""
    found = []
    for name in ("zarr.json", ".zarray"):
        path = os.path.join(unit.path, name)
        if not os.path.exists(path):
            continue
        with open_inside(path, unit) as stream:
            data = stream.read(LARGEST_METADATA)
        try:
            about = foreign_json.loads(data)
        except ValueError as error:
            return [], f"{name} is not JSON: {str(error)[:80]}"
        if not isinstance(about, dict):
            return [], f"{name} does not describe an array"
        found.append(about)
    return found, "" if found else "its metadata is missing"


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


class _Work:
    """All files of a store, and the work that they may cost."""

    def __init__(self, unit: DataUnit, asked: ReadRequest, told: Callable[[int], None]) -> None:
        self._unit, self._asked, self._told = unit, asked, told
        self._written = self._decoded = 0

    def digest(self) -> str:
        """Over the names and contents of all files, in order. Raises ``LeadsOut``, or ``TooMuch`` for holes."""
        found = hashlib.blake2b(digest_size=16)
        for path in self._files():
            found.update(os.path.relpath(path, self._unit.path).encode("utf-8", "surrogateescape") + b"\0")
            with DataSource(replace(self._unit, path=path), self._told, self._asked.work) as source:
                self._written += source.written
                for piece in source.pieces(fast=True):
                    found.update(piece)
        return f"blake2b:{found.hexdigest()}"

    def decoded(self, done: int) -> None:
        """So many bytes came out of a chunk. Raises ``TooMuch``."""
        self._told(0)
        self._decoded += done
        if self._decoded > (most := self._asked.work * max(ALWAYS_VALUES, MOST_TIMES * self._written)):
            raise TooMuch(f"{size(self._written)} unpack to more than {size(most)}{MORE}")

    def _files(self) -> Iterator[str]:
        for here, below, names in os.walk(self._unit.path):
            below.sort()
            for name in below:  # zarr follows links to folders, this walk does not
                self._stay(os.path.join(here, name))
            yield from (os.path.join(here, name) for name in sorted(names))

    def _stay(self, path: str) -> None:
        if not self._unit.follow and os.path.islink(path) and leads_out(path, self._unit.root):
            raise LeadsOut
