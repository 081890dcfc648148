# SPDX-License-Identifier: Apache-2.0
"""Which format a file has: by its first bytes, then by its structure, and by its name only where nothing else says."""

from __future__ import annotations

from dataclasses import dataclass

from keepstep.check.data.formats import FORMATS
from keepstep.check.data.readers.source import DataSource, native_crc, packed_how, unpacked_head
from keepstep.parse.formats.data.tfrecord import is_header

_BY_NAME = {ending: each.kind for each in FORMATS.values() for ending in each.endings}
_PACKINGS = {"gz", "zst", "bz2", "xz", "zlib", "zstd"}
_MAGIC = [
    ((0, magic) if isinstance(magic, bytes) else magic, each.kind) for each in FORMATS.values() for magic in each.magic
]
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")
_OTHERS = (
    (b"<!DOCTYPE", "an HTML page"),
    (b"<!doctype", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<HTML", "an HTML page"),
    (b"<?xml", "XML"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
    (b"%PDF", "a PDF"),
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
)
"""What is often found under the name of a data file."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """A file's format; ``kind`` is empty for what is no data. ``named``: the format that its name promises."""

    kind: str
    packed: str = ""
    named: str = ""
    instead: str = ""
    """What it holds in place of what its name promises, in words."""


def named_kind(name: str) -> str:
    """The format that a file name promises; empty: none."""
    parts = name.lower().split(".")
    if len(parts) > 2 and parts[-1] in _PACKINGS:
        parts = parts[:-1]
    if len(parts) < 2:
        return ""
    kind = _BY_NAME.get(parts[-1], "")
    if not kind:  # train.tfrecord-00001-of-00010
        stem = parts[-1].partition("-")[0]
        kind = "tfrecord" if _BY_NAME.get(stem) == "tfrecord" or ".tfrecord-" in name.lower() else ""
    return kind


def recognise(source: DataSource) -> Recognised:
    """The format of a file. Reads its first bytes, and its last for a few formats."""
    named = named_kind(source.name)
    head = source.head()
    if not head:
        return Recognised(named, named=named)
    by_content = _by_content(head, source)
    packed = ""
    if not by_content and (how := packed_how(head)):
        packed = how
        inner = unpacked_head(head, how)
        by_content = _by_content(inner, source) or _text(inner, named)
        if not _is_packable(by_content):
            by_content = named if _is_packable(named) else ""
        return Recognised(by_content, packed, named) if by_content else Recognised("", packed, named)
    by_content = by_content or _text(head, named)
    if by_content:
        return Recognised(by_content, named=named)
    instead = next((what for magic, what in _OTHERS if head.lstrip()[: len(magic)] == magic), "")
    if not instead and named and FORMATS[named].never_text and _is_text(head):
        instead = "text"
    return Recognised(named, named=named, instead=instead)


def _by_content(head: bytes, source: DataSource) -> str:
    if kind := _by_magic(head, at_start=True):
        return kind
    if head.startswith(_ZIPS):
        return "npz" if _is_npz(head, source) else ""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    if head[:2] == b"BM" and named_kind(source.name) == "image":
        return "image"
    if kind := _by_magic(head, at_start=False):
        return kind
    crc = native_crc()
    if crc is not None and is_header(head[:12], crc):
        return "tfrecord"
    length = int.from_bytes(head[:8], "little")
    if 2 <= length <= 100 << 20 and head[8:9] == b"{" and (length + 8 <= source.size):
        return "safetensors"
    if head[:4] == b"\xff\xff\xff\xff" and 0 < int.from_bytes(head[4:8], "little") < 1 << 24:
        return "arrow"
    return ""


def _by_magic(head: bytes, *, at_start: bool) -> str:
    found = (kind for (place, magic), kind in _MAGIC if (not place) is at_start and head.startswith(magic, place))
    return next(found, "")


def _is_packable(kind: str) -> bool:
    return kind in FORMATS and FORMATS[kind].packed


def _is_npz(head: bytes, source: DataSource) -> bool:
    """By the name of the first member."""
    if named_kind(source.name) == "npz":
        return True
    length = int.from_bytes(head[26:28], "little")
    return head[30 : 30 + length].endswith(b".npy")


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # cut inside a letter
    return True


def _text(head: bytes, named: str) -> str:
    """JSON lines or CSV: only under such a name, or where the text can be nothing else."""
    if named and FORMATS[named].is_text:
        return named if _is_text(head[:64]) or named == "csv" else ""
    if named or not _is_text(head):
        return ""
    lines = head.split(b"\n")
    if len(lines) > 2 and all(line.startswith(b"{") and line.rstrip().endswith(b"}") for line in lines[:2]):
        return "jsonl"
    return ""
