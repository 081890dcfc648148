# SPDX-License-Identifier: Apache-2.0
"""Folders whose ``index.json`` describes their shards: MDS (MosaicML Streaming) and LitData."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.check.data.units import DataUnit

LARGEST_INDEX = 512 << 20
MOST_SHARDS = 2_000_000


def _index(path: str) -> dict[str, Any]:
    with open_regular(path) as stream:
        found = foreign_json.loads(stream.read(LARGEST_INDEX))
    return found if isinstance(found, dict) else {}


def is_index(path: str) -> bool:
    """Whether it looks like such an index, by its first bytes: a web page has an index.json too."""
    try:
        with open_regular(path) as stream:
            head = stream.read(4096)
    except OSError:
        return False
    return b'"shards"' in head or b'"chunks"' in head


def indexed(path: str, root: str) -> Iterator[DataUnit]:
    """One unit for each shard, with what the index says about it; the index itself where it cannot be read."""
    folder = os.path.dirname(path)
    try:
        index = _index(path)
    except (OSError, ValueError) as error:
        yield _broken_index(path, root, str(error))
        return
    shards = index.get("shards")
    if isinstance(shards, list):
        for number, shard in enumerate(shards[:MOST_SHARDS]):
            yield from _mds(folder, root, number, shard if isinstance(shard, dict) else {})
    elif isinstance(index.get("chunks"), list):
        config = index.get("config")
        for chunk in index["chunks"][:MOST_SHARDS]:
            if isinstance(chunk, dict):
                about = {"format": "litdata", "chunk": chunk, "config": config if isinstance(config, dict) else {}}
                yield _unit(folder, root, str(chunk.get("filename")), about)
    else:
        yield _broken_index(path, root, "it has neither shards nor chunks")


def _broken_index(path: str, root: str, why: str) -> DataUnit:
    return DataUnit(path, root, kind="index", about=json.dumps({"format": "index", "why": why[:200]}))


def _mds(folder: str, root: str, number: int, shard: dict[str, Any]) -> Iterator[DataUnit]:
    """The file that is there: the raw one, or the packed one that it is unpacked from."""
    kinds = [("raw_data", False), ("zip_data", True)]
    if shard.get("format") in ("json", "xsv", "csv", "tsv"):
        kinds += [("raw_meta", False)]
    there = []
    for key, packed in kinds:
        data = shard.get(key)
        if isinstance(data, dict) and isinstance(data.get("basename"), str):
            unit = _unit(
                folder, root, data["basename"], {"format": "mds", "shard": shard, "part": key, "number": number}
            )
            there.append((packed, unit))
    raw = [unit for packed, unit in there if not packed]
    zipped = [unit for packed, unit in there if packed]
    present = [unit for unit in (*raw, *zipped) if unit.kind != "missing"]
    yield from present or (zipped or raw)[:1]


def _unit(folder: str, root: str, name: str, about: dict[str, Any]) -> DataUnit:
    """A shard in the folder of its index: a name that leads elsewhere is not followed."""
    path = os.path.join(folder, name)
    inside = os.path.normpath(path).startswith(os.path.normpath(folder) + os.sep)
    try:
        info = os.stat(path) if inside else None
    except OSError:
        info = None
    if info is None:
        return DataUnit(path, root, kind="missing", about=json.dumps({"format": about["format"]}))
    return DataUnit(path, root, info.st_size, info.st_mtime_ns, str(about["format"]), json.dumps(about))
