# SPDX-License-Identifier: Apache-2.0
"""Readers of data files on torn and changed bytes: whatever they find, they return it, and every result is a report."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from hypothesis import strategies as st

from keepstep.check.checkup import judge
from keepstep.check.data.manifest import Manifest
from keepstep.check.data.reading import read_unit
from keepstep.check.data.summary import Summary
from keepstep.check.data.units import Asked, Unit, looked_from, to_plain
from keepstep.parse.formats.data import example_proto, npy_header, tar_header
from keepstep.parse.formats.data.tfrecord import Walk
from tests.fuzz.fuzzing import target, torn


def _npy() -> bytes:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    text += b" " * (118 - len(text) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(24)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name in ("a.json", "a.cls", "b.json", "b.cls"):
            info = tarfile.TarInfo(name)
            info.size = 2
            made.addfile(info, io.BytesIO(b"{}" if "json" in name else b"12"))
    return out.getvalue()[:4096]


def _npz() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("x.npy", _npy())
    return out.getvalue()


def _safetensors() -> bytes:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def _png() -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


FILES = {
    "a.npy": _npy(),
    "a.npz": _npz(),
    "a.tar": _tar(),
    "a.safetensors": _safetensors(),
    "a.png": _png(),
    "a.jsonl": b'{"a": 1}\n{"a": [1.5, NaN]}\n',
    "a.csv": b'a,b\n1,"x\ny"\n2,z\n',
    "a.bin": struct.pack("<256i", 20240520, 1, 3, *[0] * 253) + bytes(6),
    "a.tfrecord": struct.pack("<QI", 3, 0x1E1C_2D3F) + b"abc" + bytes(4),
    "a.parquet": b"PAR1" + bytes(50) + b"PAR1",
    "a.arrow": b"ARROW1\0\0\xff\xff\xff\xff" + bytes(60) + b"ARROW1",
    "a.h5": b"\x89HDF\r\n\x1a\n" + bytes(200),
}


@target(st.sampled_from(sorted(FILES)).flatmap(lambda name: st.tuples(st.just(name), torn(FILES[name]))), examples=80)
def test_any_bytes_under_any_name_give_a_result(made: tuple[str, bytes]) -> None:
    name, data = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        unit = Unit(str(path), folder, len(data))
        found = read_unit(unit, Asked(values=True, classes=3))
        assert "the reader failed" not in found.unread, found.unread
        assert looked_from(json.loads(json.dumps(to_plain(found)))) is not None
        summary = Summary(Asked(classes=3))
        summary.add(unit, found)
        assert not judge(summary.collected(0)).crashed


@target(torn(b"\n\x0e\n\x0c\n\x01x\x12\x07\x12\x05\n\x03abc"), examples=60)
def test_examples_from_any_bytes(data: bytes) -> None:
    try:
        found = example_proto.features(data)
    except example_proto.NotAnExample:
        return
    for feature in found.values():
        assert feature.count >= 0


@target(torn(_npy()), examples=60)
def test_array_headers_from_any_bytes(data: bytes) -> None:
    try:
        npy_header.read_header(data)
    except npy_header.NotNpy:
        return


@target(torn(_tar()[:512]).map(lambda data: data[:512].ljust(512, b"\0")), examples=60)
def test_tar_headers_from_any_bytes(block: bytes) -> None:
    try:
        assert tar_header.read_header(block).size >= 0
    except tar_header.NotAHeader:
        return


@target(st.lists(st.binary(max_size=60), max_size=8), examples=60)
def test_a_walk_over_any_pieces_ends(pieces: list[bytes]) -> None:
    walk = Walk(lambda data, value=0: zlib.crc32(data, value))
    for piece in pieces:
        walk.feed(piece)
    walk.end()
    assert walk.records >= 0


@target(
    torn(b'{"schema": "keepstep.data-manifest/1"}\n{"file": "/a", "size": 1, "looked": {"format": 3}}\n'), examples=40
)
def test_a_manifest_of_any_bytes_answers_or_is_refused(data: bytes) -> None:
    from keepstep.errors import UserError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest"
        path.write_bytes(data)
        try:
            manifest = Manifest(path, Asked())
        except UserError:
            return
        assert manifest.result(Unit("/a", "/", 1)) is None or os.path.exists(path)
