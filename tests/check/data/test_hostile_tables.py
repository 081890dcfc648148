# SPDX-License-Identifier: Apache-2.0
"""Parquet, Arrow, HDF5 and npy files made to hurt their reader: absurd numbers, depths and sizes cost one file each."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.check.data.pool import ReaderPool
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from tests.check.data.files import kinds, looked

MEMORY = 400 << 20


def read_apart(*paths: Path) -> dict[str, UnitRead]:
    """By a worker that is ended at ``MEMORY``, and good.jsonl after them."""
    good = paths[0].with_name("good.jsonl")
    good.write_bytes(b'{"a": 1}\n')
    units = [DataUnit(str(path), str(path.parent), path.stat().st_size) for path in (*paths, good)]
    pool = ReaderPool(1, ReadRequest(values=True), wait_s=30, most_memory=MEMORY)
    found = {Path(unit.path).name: result for unit, result, _ in pool.read(units) if unit and result}
    assert found.pop("good.jsonl").records == 1
    assert not any("the reader failed" in each.unread for each in found.values())
    return found


def test_footers_of_parquet_with_absurd_numbers(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    parquet.write_table(arrow.table({"x": list(range(100))}), out)
    good = out.getvalue()
    footers = {
        "deep lists": b"\x19" + b"\x99" * 1_000_000,
        "deep structs": b"\x1c" * 1_000_000,
        "two billion columns": b"\x15\x02\x19\xfc\xff\xff\xff\xff\x07" + bytes(1000),
    }
    made = {name: b"PAR1" + foot + struct.pack("<I", len(foot)) + b"PAR1" for name, foot in footers.items()}
    for length in (0, len(good) - 8, 2 * len(good), 0x7FFFFFFF, 0xFFFFFFFF):
        made[f"footer of {length}"] = good[:-8] + struct.pack("<I", length) + b"PAR1"
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    for name, found in read_apart(*(tmp_path / name for name in made)).items():
        assert len(found.bad) or found.unread, name


def test_messages_of_arrow_with_absurd_numbers(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    made: dict[str, bytes] = {}
    for way in ("file", "stream"):
        out = io.BytesIO()
        table = arrow.table({"x": list(range(100))})
        with (arrow.ipc.new_file if way == "file" else arrow.ipc.new_stream)(out, table.schema) as writer:
            writer.write_table(table)
        good = out.getvalue()
        begin = 8 if way == "file" else 0
        batch = begin + 8 + struct.unpack_from("<i", good, begin + 4)[0]
        place = good.index(struct.pack("<q", arrow.ipc.read_message(arrow.py_buffer(good[batch:])).body.size), batch)
        for length in (-1, 1 << 33, 1 << 40, 1 << 62):
            made[f"{way} {length}.arrow"] = good[:place] + struct.pack("<q", length) + good[place + 8 :]
        for length in (0xFFFFFF, 0x7FFFFFFF):
            made[f"{way} schema {length}.arrow"] = good[: begin + 4] + struct.pack("<I", length) + good[begin + 8 :]
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    for name, found in read_apart(*(tmp_path / name for name in made)).items():
        assert len(found.bad) or found.unread, name


def test_packed_batches_of_arrow_that_unpack_to_far_more_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("keepstep.check.data.readers.arrow.ALWAYS_VALUES", 1 << 20)
    monkeypatch.setattr("keepstep.check.data.readers.source.MOST_TIMES", 2)
    table = arrow.table({"x": [0] * (1 << 18)})
    path = tmp_path / "a.arrow"
    with arrow.ipc.new_file(str(path), table.schema, options=arrow.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    assert "unpack to more than" in looked(path).unread


def test_groups_of_hdf5_that_are_nested_without_end(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        group = made
        for _ in range(600):
            group = group.create_group("g")
        group["x"] = [1]
        made["self"] = made["g"]
        made["soft"] = h5py.SoftLink("/soft")
    began = time.monotonic()
    found = looked(path)
    assert time.monotonic() - began < 4
    assert "nested" in found.unread and not len(found.bad)


def test_a_chunk_of_hdf5_that_holds_more_than_it_says_costs_one_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    packer = zlib.compressobj(1)
    bomb = b"".join(packer.compress(bytes(1 << 24)) for _ in range(30)) + packer.flush()
    with h5py.File(tmp_path / "a.h5", "w") as made:
        chunks = made.create_dataset("x", shape=(1 << 20,), dtype="u1", chunks=(1 << 20,), compression="gzip")
        chunks.id.write_direct_chunk((0,), bomb)
        made.create_dataset("never written", shape=(1 << 50,), dtype="f8", chunks=(1 << 20,))
    (found,) = read_apart(tmp_path / "a.h5").values()
    assert found.format == "hdf5" or found.unread  # HDF5 takes what the chunk should hold, or its reader is ended


def test_packed_chunks_of_hdf5_that_unpack_to_far_more_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr("keepstep.check.data.readers.hdf5.ALWAYS_VALUES", 1 << 20)
    monkeypatch.setattr("keepstep.check.data.readers.source.MOST_TIMES", 2)
    packed = zlib.compress(bytes(1 << 18))
    with h5py.File(tmp_path / "a.h5", "w") as made:
        chunks = made.create_dataset("x", shape=(100 << 18,), dtype="u1", chunks=(1 << 18,), compression="gzip")
        for number in range(100):
            chunks.id.write_direct_chunk((number << 18,), packed)
    found = looked(tmp_path / "a.h5")
    assert "unpack to more than" in found.unread and "--work" in found.unread
    assert not looked(tmp_path / "a.h5", work=100).unread


@pytest.mark.parametrize(
    "shape", [lambda: "(1,)" * 2 + "()", lambda: str((2**59,) * 9000), lambda: "(" * 3000, lambda: str((1,) * 65)]
)
def test_shapes_that_numpy_would_never_write(tmp_path: Path, shape: Callable[[], str]) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape()}, }}\n".encode()
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text)
    assert kinds(looked(path)) == ["corrupt"]


def test_a_table_of_items_that_overlap_is_bounded(tmp_path: Path) -> None:
    """MDS: every other item is all of the file."""
    number = 2_000
    size = 4 + 4 * (number + 1) + (1 << 20)
    offsets = [(0, size)[n % 2] for n in range(number + 1)]
    path = tmp_path / "a.mds"
    path.write_bytes(struct.pack(f"<I{number + 1}I", number, *offsets) + bytes(1 << 20))
    found = looked(path, "mds")
    assert "of reading" in found.unread
