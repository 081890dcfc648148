# SPDX-License-Identifier: Apache-2.0
"""Arrays as numpy, safetensors, h5py and zarr write them, damaged."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from tests.check.data.files import cut, flip, kinds, looked, report_on, rules_of

numpy = pytest.importorskip("numpy")


def array(rows: int = 100) -> numpy.ndarray:
    return numpy.arange(rows * 4, dtype=numpy.float32).reshape(rows, 4)


@pytest.mark.parametrize("dtype", ["float32", "<i8", "uint8", "U7", "datetime64[ns]", "complex64", "bool", ">f4"])
def test_good_arrays_are_good(tmp_path: Path, dtype: str) -> None:
    numpy.save(tmp_path / "a.npy", numpy.ones((7, 3)).astype("i8").astype(dtype))
    found = looked(tmp_path / "a.npy")
    assert (found.format, found.records, len(found.bad), found.unread) == ("npy", 7, 0, "")
    assert found.fields[0].shape == "[3]"


def test_structured_and_scalar_arrays_are_good(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros(5, dtype=[("x", "f4", (2, 2)), ("y", "i8")]))
    numpy.save(tmp_path / "b.npy", numpy.float64(3))
    assert not len(looked(tmp_path / "a.npy").bad) and not len(looked(tmp_path / "b.npy").bad)


def test_pickled_objects_are_not_opened(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.array([{}, []], dtype=object), allow_pickle=True)
    assert "pickled" in looked(tmp_path / "a.npy").unread


def test_an_array_that_is_cut_or_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    numpy.save(path, array())
    cut(path, 20)
    assert [(b.kind, b.record, b.offset) for b in looked(path).bad.first] == [("truncated", 98, 128 + 98 * 16)]
    numpy.save(path, array())
    path.write_bytes(path.read_bytes() + b"more")
    assert [(b.kind, b.offset) for b in looked(path).bad.first] == [("corrupt", 128 + 1600)]
    numpy.save(path, array())
    flip(path, 20, 0xFF)
    assert kinds(looked(path)) == ["corrupt"]
    numpy.save(path, array(0))
    assert kinds(looked(path)) == ["empty"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_values_of_arrays(tmp_path: Path, order: str) -> None:
    values = array()
    values[33, 2] = numpy.nan
    numpy.save(tmp_path / "a.npy", numpy.asarray(values, order=order))
    odd = looked(tmp_path / "a.npy", values=True).odd
    assert [(each.nans, each.record) for each in odd] == [(1, 33 if order == "C" else 0)]


@pytest.mark.parametrize("save", ["savez", "savez_compressed"])
def test_npz_members_have_checksums(tmp_path: Path, save: str) -> None:
    path = tmp_path / "a.npz"
    getattr(numpy, save)(path, x=numpy.random.default_rng(0).random((50, 20)), label=numpy.arange(50))
    found = looked(path)
    assert (found.format, found.records, len(found.bad), found.protected) == ("npz", 50, 0, True)
    flip(path, 2000)
    assert [(b.kind, b.record) for b in looked(path).bad.first] == [("corrupt", 0)]
    cut(path, 30)
    assert kinds(looked(path)) == ["truncated"]


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.check.data.readers.source.ALWAYS", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(300 << 20))
    assert "unpack to more than" in looked(tmp_path / "a.npz").unread


def test_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"x": array(), "y": numpy.arange(10)}, str(path))
    found = looked(path)
    assert (found.format, found.records, len(found.bad), found.protected) == ("safetensors", 2, 0, False)
    whole = path.read_bytes()
    cut(path, 8)
    assert [b.kind for b in looked(path).bad.first] == ["truncated"]
    path.write_bytes(whole + b"zz")
    assert kinds(looked(path)) == ["corrupt"]
    length = struct.unpack("<Q", whole[:8])[0]
    path.write_bytes(whole[:8] + whole[8 : 8 + length].replace(b'"F32"', b'"F64"') + whole[8 + length :])
    assert kinds(looked(path)) == ["corrupt"]
    path.write_bytes(whole[: 8 + length // 2])
    assert kinds(looked(path)) == ["truncated"]
    path.write_bytes(whole[:20] + b"\xff\xff" + whole[22:])
    assert kinds(looked(path)) == ["corrupt"]


def test_an_array_changed_by_a_disk_is_noticed_by_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    numpy.save(folder / "a.npy", array())
    report = report_on(folder, manifest=tmp_path / "m.jsonl")
    assert report.exit_status == 0
    assert any("payload unprotected" in each.why for each in report.coverage)
    flip(folder / "a.npy", 1000)
    report = report_on(folder, manifest=tmp_path / "m.jsonl", again=True)
    assert rules_of(report) == ["DAT306"]
    assert report.findings[0].severity.value == "fatal"


@pytest.mark.parametrize("settings", [{}, {"chunks": (10, 4)}, {"chunks": (10, 4), "compression": "gzip"}])
def test_hdf5(tmp_path: Path, settings: dict[str, object]) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        made.create_dataset("train/x", data=array(), **settings)
        made.create_dataset("train/y", data=numpy.arange(100))
    found = looked(path, values=True)
    assert (found.format, found.records, len(found.bad)) == ("hdf5", 100, 0)
    assert [f.name for f in found.fields] == ["train/x", "train/y"]
    whole = path.read_bytes()
    path.write_bytes(whole[:-600])
    assert kinds(looked(path)) == ["truncated"]
    path.write_bytes(bytes([whole[0]]) + whole[1:8] + b"\xff" * 60 + whole[68:])
    assert kinds(looked(path)) == ["corrupt"]


def test_an_hdf5_chunk_with_a_checksum_or_packed_is_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    for settings in ({"fletcher32": True}, {"compression": "gzip"}):
        with h5py.File(path, "w") as made:
            chunks = made.create_dataset("x", data=array(), chunks=(10, 4), **settings)
            info = chunks.id.get_chunk_info(3)
        assert looked(path).protected is ("fletcher32" in settings)
        data = bytearray(path.read_bytes())
        data[info.byte_offset + 2 : info.byte_offset + 12] = b"\xff" * 10
        path.write_bytes(bytes(data))
        found = looked(path)
        assert [(b.kind, b.record, b.offset) for b in found.bad.first] == [("corrupt", 30, info.byte_offset)]


def zarr_looked(folder: Path, **asked: object) -> UnitRead:
    return read_unit(DataUnit(str(folder), str(folder), kind="zarr"), ReadRequest(**asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path: Path, version: int) -> None:
    zarr = pytest.importorskip("zarr")
    if not hasattr(zarr, "create_array"):
        pytest.skip("zarr 2 has another way to make arrays")
    folder = tmp_path / "a.zarr"
    made = zarr.create_array(str(folder), shape=(100, 4), chunks=(10, 4), dtype="f4", zarr_format=version)
    made[:60] = numpy.random.default_rng(0).random((60, 4))
    found = zarr_looked(folder, values=True)
    assert (found.records, len(found.bad)) == (100, 0), "chunks that are not there hold the fill value"
    chunk = folder / ("2.0" if version == 2 else "c/2/0")
    cut(chunk, 30)
    found = zarr_looked(folder)
    assert [(b.kind, b.record) for b in found.bad.first] == [("corrupt", 20)]
    assert str(chunk.relative_to(folder)) in (found.bad.first[0].part or "")
    report = report_on(tmp_path)
    assert rules_of(report) == ["DAT301"]
    (folder / ("zarr.json" if version == 3 else ".zarray")).write_text('{"shape": [1')
    assert kinds(zarr_looked(folder)) == ["corrupt"]
