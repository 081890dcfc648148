# SPDX-License-Identifier: Apache-2.0
"""A small good file of every format: one function per row of ``keepstep.check.data.formats``, by its kind.

Each writes into a folder and returns the file whose damage must be noticed. Where the format's library is not
installed, it raises ``ImportError``. The tests of all formats and the fuzz targets take their files from here.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from keepstep.parse.formats.data.tfrecord import masked

MADE = Path(__file__).with_name("made")


def npy() -> bytes:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    text += b" " * (118 - len(text) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(24)


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name in ("a.json", "a.cls", "b.json", "b.cls"):
            info = tarfile.TarInfo(name)
            info.size = 2
            made.addfile(info, io.BytesIO(b"{}" if "json" in name else b"12"))
    return out.getvalue()[:5120]


def _npz() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("x.npy", npy())
    return out.getvalue()


def _safetensors() -> bytes:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def _png() -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def _tfrecord() -> bytes:
    from crc32c import crc32c

    length = struct.pack("<Q", 3)
    return (length + struct.pack("<I", masked(crc32c(length))) + b"abc" + struct.pack("<I", masked(crc32c(b"abc")))) * 2


def _file(name: str, made: Callable[[], bytes]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(made())
        return folder / name

    return write


def _parquet(folder: Path) -> Path:
    from pyarrow import parquet, table

    parquet.write_table(table({"x": [1.0, 2.0, 3.0]}), folder / "a.parquet")
    return folder / "a.parquet"


def _arrow(folder: Path) -> Path:
    from pyarrow import feather, table

    feather.write_feather(table({"x": [1.0, 2.0, 3.0]}), str(folder / "a.arrow"))
    return folder / "a.arrow"


def _hdf5(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "a.h5", "w") as made:
        made["x"] = [1.0, 2.0, 3.0]
    return folder / "a.h5"


def _zarr(folder: Path) -> Path:
    import zarr

    made = zarr.create_array(str(folder / "a.zarr"), shape=(6, 4), chunks=(3, 4), dtype="f4")
    made[:] = 1.5
    return folder / "a.zarr" / "c" / "0" / "0"


def _made(name: str, shard: str) -> Callable[[Path], Path]:
    def copy(folder: Path) -> Path:
        shutil.copytree(MADE / name, folder, dirs_exist_ok=True)
        return folder / shard

    return copy


SAMPLES: dict[str, Callable[[Path], Path]] = {
    "tfrecord": _file("a.tfrecord", _tfrecord),
    "parquet": _parquet,
    "arrow": _arrow,
    "tar": _file("a.tar", tar),
    "mds": _made("mds", "shard.00001.mds"),
    "litdata": _made("litdata", "chunk-0-1.bin"),
    "npz": _file("a.npz", _npz),
    "npy": _file("a.npy", npy),
    "safetensors": _file("a.safetensors", _safetensors),
    "jsonl": _file("a.jsonl", lambda: b'{"a": 1}\n{"a": [1.5, 2, 3, 4, 5]}\n'),
    "csv": _file("a.csv", lambda: b'a,b\n"x\ny",1\n22222,3\n'),
    "image": _file("a.png", _png),
    "hdf5": _hdf5,
    "zarr": _zarr,
    "tokens": _file("a.bin", lambda: struct.pack("<256i", 20240520, 1, 3, *[0] * 253) + bytes(6)),
}
