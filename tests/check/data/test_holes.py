# SPDX-License-Identifier: Apache-2.0
"""Sparse files: holes are skipped and named, and the work grows with what is on disk, never with the stated size."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from keepstep.check.data.check_files import Rescue, check_files
from keepstep.check.data.look import DataRequest
from keepstep.check.data.readers.holes import holes_of
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import DataUnit, ReadRequest
from keepstep.sources.files.unpack import TooMuch
from tests.check.data.files import kinds, looked
from tests.check.data.samples import SAMPLES

TB = 1 << 40
LINE = b'{"a": 1}\n'


@pytest.fixture(autouse=True)
def _holes_are_kept(tmp_path: Path) -> None:
    sparse(tmp_path / "try", b"x", 1 << 30)
    with (tmp_path / "try").open("rb") as stream:
        if not holes_of(stream.fileno()):
            pytest.skip("this file system does not keep holes")
    (tmp_path / "try").unlink()


def sparse(path: Path, data: bytes, size: int, end: bytes = b"") -> Path:
    """A file with data at its beginning and at its end, and nothing between."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.truncate(size)
        stream.seek(size - len(end))
        stream.write(end)
    return path


def test_holes_are_found_and_the_place_is_kept(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a", b"x" * 10, 8 << 20, b"y")
    with path.open("rb") as stream:
        assert stream.read(3) == b"xxx"
        ((begin, end),) = holes_of(stream.fileno())
        assert stream.read(3) == b"xxx"
    assert 10 <= begin <= 1 << 16 and 7 << 20 < end < 8 << 20
    dense = tmp_path / "dense"
    dense.write_bytes(bytes(4 << 20))
    with dense.open("rb") as stream:
        assert holes_of(stream.fileno()) == []


@pytest.mark.parametrize("kind", sorted(set(SAMPLES) - {"zarr", "mds", "litdata"}))
@pytest.mark.parametrize("values", [False, True])
def test_a_terabyte_of_nothing_takes_no_time_in_any_format(tmp_path: Path, kind: str, values: bool) -> None:
    try:
        path = SAMPLES[kind](tmp_path)
    except ImportError:
        pytest.skip("its library is not installed")
    os.truncate(path, TB)
    began = time.monotonic()
    found = looked(path, values=values)
    assert time.monotonic() - began < 4
    assert "1.1 TB of its 1.1 TB are holes" in found.unread or "is not read" in found.unread or not found.data, found
    assert not found.digest


def test_an_array_that_was_never_written_is_not_called_healthy(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (TB // 4)
    header += b" " * (118 - len(header) - 1) + b"\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    path = sparse(tmp_path / "a.npy", head, len(head) + TB)
    for values in (False, True):
        found = looked(path, values=values)
        assert found.unread and not len(found.bad)
    report = check_files(DataRequest(paths=(str(path),), jobs=1), None, Rescue()).report
    assert report.exit_status == 3
    assert any("are holes, where nothing was written" in each.why for each in report.coverage)


def test_lines_after_a_hole_are_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.jsonl", LINE * 3, TB, b"\n" + LINE * 2 + b"{bad\n")
    found = looked(path)
    assert [(bad.record, bad.line) for bad in found.bad.first] == [(3, 4), (6, 7)]
    assert found.bad.first[1].offset == TB - 5
    assert "they were skipped" in found.unread


def test_records_after_a_hole_are_found(tmp_path: Path) -> None:
    pytest.importorskip("crc32c")
    record = SAMPLES["tfrecord"](tmp_path).read_bytes()
    path = sparse(tmp_path / "b.tfrecord", record, TB, record)
    found = looked(path)
    (bad,) = found.bad.first
    assert (bad.kind, bad.offset, bad.length) == ("corrupt", len(record), TB - 2 * len(record))
    assert found.records == 5
    cut = looked(sparse(tmp_path / "c.tfrecord", record, TB))
    assert kinds(cut) == ["truncated"] and f"{TB - len(record):,} bytes of them" in cut.bad.first[0].how
    within = looked(sparse(tmp_path / "d.tfrecord", record[:14], TB))
    assert "with a hole" in within.unread or len(within.bad)


def test_rescue_copies_no_hole(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    sparse(data / "a.jsonl", LINE + b"{bad\n", TB)
    rescue = Rescue(extract=tmp_path / "out", clean=tmp_path / "clean", where=0)
    done = check_files(DataRequest(paths=(str(data),), jobs=1), None, rescue)
    said = list(done.rescued)
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) < 1 << 20
    assert any("no clean copy: not all of it was read" in line for line in said)
    assert done.report.exit_status == 1


def test_a_store_with_a_hole_is_left(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    if not hasattr(zarr, "create_array"):
        pytest.skip("zarr 2 has another way to make arrays")
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(4,), chunks=(4,), dtype="f4")[:] = 1
    os.truncate(tmp_path / "a.zarr" / "c" / "0", TB)
    assert "are holes" in looked(tmp_path / "a.zarr", "zarr").unread


def test_hdf5_values_in_a_hole_are_left(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(made.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((TB // 4,)), settings)
        made.create_dataset("y", shape=(TB // 4,), dtype="i4")
    began = time.monotonic()
    found = looked(path)
    assert time.monotonic() - began < 4
    assert "of reading" in found.unread


def test_the_work_grows_with_what_is_on_disk_and_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keepstep.check.data.readers.source.ALWAYS", 1 << 20)
    path = sparse(tmp_path / "a", b"x" * (1 << 16), 8 << 20)
    unit = DataUnit(str(path), str(path), path.stat().st_size)
    with DataSource(unit) as source:
        assert source.hole_bytes and source.written == 1 << 16
        with pytest.raises(TooMuch, match="need more than"):
            source.worked((1 << 20) + (9 << 16))
    with DataSource(unit) as source, pytest.raises(TooMuch, match="up to the first"):
        list(source.pieces())
    with DataSource(unit, work=2) as source:
        source.worked((1 << 20) + (9 << 16))
    with DataSource(unit, work=8) as source:
        assert not source.holes and len(b"".join(source.pieces())) == 8 << 20
        assert source.digest
    assert "are holes" in looked(path, "tokens").unread
    assert not looked(path, "tokens", work=8).unread


def test_a_manifest_is_good_for_any_amount_of_work(tmp_path: Path) -> None:
    from keepstep.check.data.report.manifest import Manifest

    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE)
    info = path.stat()
    unit = DataUnit(str(path), str(path), info.st_size, info.st_mtime_ns)
    manifest = Manifest(tmp_path / "m", ReadRequest())
    manifest.add(unit, looked(path), 0.0)
    manifest.write()
    assert Manifest(tmp_path / "m", ReadRequest(work=3)).result(unit) is not None
