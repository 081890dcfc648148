# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's own format shows about it, without a ledger.

Zip archives (torch, Keras, NumPy) carry a sum per member, which torch itself does not look at. Of the others only the
lengths are checked: a flipped bit in them is not seen.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from glob import escape
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.parse.formats.tensor_bundle import bytes_of_shards, is_table
from keepstep.store.ledger.checkpoint_files import TF_PARTS, parts_of

MOST_TESTED = 4 << 30
MOST_JSON = 16 << 20
ALWAYS_ZIPPED = (".npz", ".keras")
ZIPPED = (".pt", ".pth", ".ckpt", ".bin")
HDF5 = (".h5", ".hdf5")
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.(?:safetensors|bin)")
_UNFINISHED = re.compile(r"\.(?:tmp|partial)$|\.orbax-checkpoint-tmp")


def is_whole(path: Path) -> bool:
    """Whether a checkpoint looks complete, as far as its format shows."""
    try:
        return wrong_with(path) is None
    except OSError:
        return False


def is_known(path: Path) -> bool:
    """Whether it has a format of which something can be checked."""
    return any(
        each.suffix in (*ALWAYS_ZIPPED, ".safetensors", *HDF5, ".distcp")
        or bool(TF_PARTS.search(each.name))
        or (each.suffix in ZIPPED and _begins(each, b"PK"))
        for each in parts_of(path)
    )


def is_zipped(path: Path) -> bool:
    return path.suffix in ALWAYS_ZIPPED or (path.suffix in ZIPPED and _begins(path, b"PK"))


def shows_all(path: Path) -> bool:
    """Whether its own sums are over all that a load reads, and are looked at."""
    return path.is_file() and is_zipped(path) and path.stat().st_size <= MOST_TESTED


def shows_its_end(path: Path) -> bool:
    """Whether one sees that such a file was cut off."""
    return is_zipped(path) or path.suffix in (".safetensors", *HDF5)


def wrong_with(path: Path) -> str | None:
    """What its format shows to be wrong with a checkpoint; None: nothing. Raises ``OSError``."""
    files = parts_of(path)
    if not files:
        return "there is no such file" if not path.exists() else "the folder is empty"
    if _UNFINISHED.search(path.name):
        return "its name says that the save was not finished"
    if path.is_dir() and any(each.suffix == ".distcp" for each in files) and not (path / ".metadata").exists():
        return ".metadata is missing: the save was not finished"
    for each in files:
        if (wrong := wrong_with_file(each)) is not None:
            return wrong if each == path else f"{each.name}: {wrong}"
    return missing_shard(files)


def wrong_with_file(path: Path) -> str | None:
    """The same of one file of it. Raises ``OSError``."""
    try:
        size = path.stat().st_size
        if is_zipped(path):
            with zipfile.ZipFile(path) as archive:
                bad = archive.testzip() if size <= MOST_TESTED else None
                return f"{bad} does not match its sum" if bad is not None else None
        if path.suffix == ".safetensors":
            return _wrong_with_safetensors(path, size)
        if path.suffix in HDF5:
            return _wrong_with_hdf5(path, size)
        if path.suffix == ".index" and size <= MOST_JSON:
            return _wrong_with_bundle(path)
        if size == 0 and path.suffix not in ("", ".json", ".txt", ".lock"):
            return "it is empty"
        if path.suffix == ".json":
            foreign_json.loads(path.read_bytes() if size <= MOST_JSON else b"{}")
    except zipfile.BadZipFile as error:
        return f"it is cut off or no archive: {error}"
    except (ValueError, struct.error, zlib.error, EOFError, RuntimeError, OverflowError) as error:
        return str(error) or type(error).__name__
    return None


def missing_shard(files: tuple[Path, ...]) -> str | None:
    """Names of shards say how many there must be."""
    for each in files:
        if shards := _SHARD.fullmatch(each.name):
            there = sum(1 for one in files if (found := _SHARD.fullmatch(one.name)) and found[1] == shards[1])
            if there < int(shards[2]):
                return f"{there} of the {int(shards[2])} parts of {shards[1]} are there"
        if shards := re.search(r"\.data-\d{5}-of-(\d{5})$", each.name):
            stem = TF_PARTS.sub("", each.name)
            there = sum(1 for one in files if one.name.startswith(f"{stem}.data-"))
            if there != int(shards[1]):
                return f"{there} of its {int(shards[1])} data files are there"
            if not each.with_name(f"{stem}.index").exists():
                return f"{stem}.index is missing"
    return None


def _begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _wrong_with_safetensors(path: Path, size: int) -> str | None:
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if not 0 < length <= min(size - 8, 100 << 20):
            return "its header is damaged"
        head = foreign_json.loads(stream.read(length))
    try:
        ends = [about["data_offsets"][1] for name, about in head.items() if name != "__metadata__"]
    except (AttributeError, KeyError, IndexError, TypeError):
        return "its header is damaged"
    wanted = max(ends, default=0) + 8 + length
    return None if wanted == size else f"it has {size:,} bytes, and its header says {wanted:,}"


def _wrong_with_bundle(path: Path) -> str | None:
    """TensorFlow's: how long each of its data files must be."""
    stem, data = path.name.removesuffix(".index"), path.read_bytes()
    there = {each.name: each.stat().st_size for each in path.parent.glob(f"{escape(stem)}.data-*")}
    if not is_table(data):
        return "its table is damaged" if there else None  # without data: a file of somebody else
    wanted = bytes_of_shards(data)
    for number, size in sorted(wanted.items()):
        name = f"{stem}.data-{number:05d}-of-{len(wanted):05d}"
        if there.get(name, -1) < size:
            return f"{name} has {there[name]:,} of {size:,} bytes" if name in there else f"{name} is missing"
    return None


def _wrong_with_hdf5(path: Path, size: int) -> str | None:
    """Version 0 to 3 of the superblock: the address of the end of the file."""
    with path.open("rb") as stream:
        head = stream.read(96)
    if not head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "it does not begin like HDF5"
    version = head[8]
    where = {0: 24 + 16, 1: 28 + 16, 2: 12 + 16, 3: 12 + 16}.get(version)
    if where is None:
        return None
    wide = head[13] if version < 2 else head[9]
    if wide != 8:
        return None
    (end,) = struct.unpack_from("<Q", head, where)
    return None if end <= size else f"it has {size:,} bytes, and its header says {end:,}"
