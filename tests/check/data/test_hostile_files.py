# SPDX-License-Identifier: Apache-2.0
"""Real files that want too much or may not be read: bombs of every packing, objects in arrays, modes, other names."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keepstep.check.data.pool import ReaderPool
from keepstep.check.data.units import DataUnit, ReadRequest
from tests.check.data.files import kinds, looked, report_on

LINES = b'{"a": 1}\n{"a": 2}\n'


def test_a_parquet_that_unpacks_to_gigabytes_is_not_unpacked_further(tmp_path: Path) -> None:
    """A column of one value: its dictionary has one entry, and the rows are one run."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    some = arrow.table({"x": arrow.array([7] * 2_000_000, arrow.int64())})
    with parquet.ParquetWriter(path, some.schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(some)
    assert path.stat().st_size < 1 << 20
    found = looked(path)
    assert "unpack to more than 268" in found.unread
    assert not len(found.bad)


def test_a_parquet_whose_rows_fill_the_memory_costs_one_file(tmp_path: Path) -> None:
    """One text of a megabyte in every row, stored once: 64 GB for the rows that are decoded together."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bomb, good = tmp_path / "bomb.parquet", tmp_path / "good.jsonl"
    column = arrow.DictionaryArray.from_arrays(arrow.array([0] * 65_536, arrow.int32()), arrow.array(["x" * (1 << 20)]))
    parquet.write_table(arrow.table({"x": column}), bomb, store_schema=False)
    good.write_bytes(LINES)
    units = [DataUnit(str(path), str(tmp_path), path.stat().st_size) for path in (bomb, good)]
    pool = ReaderPool(1, ReadRequest(), wait_s=60, most_memory=600 << 20)
    found = {Path(unit.path).name: result for unit, result, _ in pool.read(units) if unit and result}
    assert "memory" in found["bomb.parquet"].unread or "unpack to more" in found["bomb.parquet"].unread
    assert found["good.jsonl"].records == 2


def test_a_gzip_and_a_zip_bomb_are_not_unpacked_further(tmp_path: Path) -> None:
    piece = gzip.compress(b'{"a": 1}\n' * (1 << 17))
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(LINES) + gzip.compress(b" " * (1 << 20)) * 300 + piece)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(300 << 20))
    for name in ("bomb.jsonl.gz", "bomb.npz"):
        found = looked(tmp_path / name)
        assert "unpack to more than" in found.unread, (name, found)


def test_objects_in_arrays_are_never_made(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    mark = tmp_path / "made"

    class Acts:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(mark),)

    numpy.save(tmp_path / "a.npy", numpy.array([Acts()], dtype=object), allow_pickle=True)
    numpy.savez(tmp_path / "b.npz", x=numpy.array([Acts()], dtype=object))
    report = report_on(tmp_path, asked=ReadRequest(values=True))
    assert not mark.exists()
    assert any("pickled objects" in each.why for each in report.coverage)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_no_permission_is_a_finding_for_root_without_its_rights_too(tmp_path: Path, what: str) -> None:
    data = tmp_path / "data"
    (data / "inner").mkdir(parents=True)
    (data / "good.jsonl").write_bytes(LINES)
    (data / "inner" / "x.jsonl").write_bytes(LINES)
    closed = data / "inner" / "x.jsonl" if what == "file" else data / "inner"
    command = [sys.executable, "-m", "keepstep", "check", "data", str(data), "--no-manifest", "--json"]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        os.chown(closed, 12345, 12345)
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    closed.chmod(0)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    finally:
        if os.geteuid() != 0:
            closed.chmod(0o700)
    report = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert [each["rule"] for each in report["findings"]] == ["DAT307"]
    assert "Permission denied" in report["findings"][0]["title"]
    assert report["findings"][0]["evidence"][0]["source"] == str(closed)
    assert any("1 JSON lines file" in each["what"] for each in report["coverage"])


def test_names_that_lie_about_real_files(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [1, 2]}), tmp_path / "table.npy")
    with zipfile.ZipFile(tmp_path / "archive.tfrecord", "w") as archive:
        archive.writestr("a.txt", "text")
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(LINES))
    (tmp_path / "page.parquet").write_bytes(b"<!DOCTYPE html><title>403</title>")
    assert kinds(looked(tmp_path / "table.npy")) == ["misnamed"]
    assert kinds(looked(tmp_path / "archive.tfrecord")) == ["misnamed"]
    assert kinds(looked(tmp_path / "page.parquet")) == ["misnamed"]
    assert looked(tmp_path / "packed.jsonl").records == 2, "a packing is seen, whatever the name"


def test_a_file_that_is_cut_or_removed_while_it_is_read(tmp_path: Path) -> None:
    from keepstep.check.data.reading import read_unit

    for act in ("cut", "remove"):
        path = tmp_path / f"{act}.jsonl"
        path.write_bytes((b'{"a": "' + b"x" * 100_000 + b'"}\n') * 120)

        def change(read: int, path: Path = path, act: str = act) -> None:
            if path.exists():
                os.truncate(path, 3_000_000) if act == "cut" else path.unlink()

        info = path.stat()
        found = read_unit(DataUnit(str(path), "", info.st_size, info.st_mtime_ns), ReadRequest(), change)
        assert not len(found.bad), act
        assert found.changed if act == "cut" else found.records == 120, "what is open stays readable"
