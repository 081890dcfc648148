# SPDX-License-Identifier: Apache-2.0
"""Parquet and Arrow files as pyarrow writes them, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.data.units import ReadRequest
from tests.check.data.files import cut, flip, kinds, looked, report_on, rules_of

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 5000


def table(rows: int = ROWS, **changed: object) -> pyarrow.Table:
    columns = {"x": [float(n) for n in range(rows)], "label": [n % 10 for n in range(rows)]}
    return pyarrow.table({**columns, "text": [f"row {n}" for n in range(rows)], **changed})


@pytest.fixture(params=["none", "snappy", "zstd"])
def packed(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_good_parquet_file_is_good(tmp_path: Path, packed: str) -> None:
    parquet.write_table(table(), tmp_path / "a.parquet", compression=packed, row_group_size=1000)
    found = looked(tmp_path / "a.parquet")
    assert (found.format, found.records, len(found.bad)) == ("parquet", ROWS, 0)
    assert [f.name for f in found.fields] == ["x", "label", "text"]
    assert not found.protected


def test_a_parquet_page_with_a_checksum_reveals_one_flipped_bit(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(table(), path, compression="none", row_group_size=1000, write_page_checksum=True)
    assert looked(path).protected
    chunk = parquet.ParquetFile(path).metadata.row_group(2).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    flip(path, begin + chunk.total_compressed_size // 2)
    found = looked(path)
    assert [(b.kind, b.record) for b in found.bad.first] == [("corrupt", 2000)]
    assert "column x" in (found.bad.first[0].part or "")
    assert found.bad.first[0].offset == begin


def test_a_packed_parquet_column_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(table(), path, compression="zstd", row_group_size=1000, use_dictionary=False)
    chunk = parquet.ParquetFile(path).metadata.row_group(1).column(2)
    data = bytearray(path.read_bytes())
    begin = chunk.data_page_offset + 60
    data[begin : begin + 100] = bytes(100)
    path.write_bytes(bytes(data))
    found = looked(path)
    assert [(b.kind, b.record) for b in found.bad.first] == [("corrupt", 1000)]


@pytest.mark.parametrize("by", [1, 100, 2000])
def test_a_parquet_file_cut_short_lacks_its_footer(tmp_path: Path, by: int) -> None:
    parquet.write_table(table(), tmp_path / "a.parquet")
    cut(tmp_path / "a.parquet", by)
    assert kinds(looked(tmp_path / "a.parquet")) == ["truncated"]


def test_a_damaged_parquet_footer_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(table(), path)
    size = path.stat().st_size
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    data = bytearray(path.read_bytes())
    data[size - 8 - length : size - 8 - length + 40] = b"\xff" * 40
    path.write_bytes(bytes(data))
    assert kinds(looked(path)) == ["corrupt"]


def test_no_rows_and_no_bytes_are_empty(tmp_path: Path) -> None:
    parquet.write_table(table(0), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"")
    assert kinds(looked(tmp_path / "a.parquet")) == kinds(looked(tmp_path / "b.parquet")) == ["empty"]


def test_a_page_of_html_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("<!DOCTYPE html><html><body>404 Not Found</body></html>")
    found = looked(tmp_path / "a.parquet")
    assert kinds(found) == ["misnamed"]
    assert "HTML" in found.bad.first[0].how


def test_other_types_and_missing_columns_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(4):
        parquet.write_table(table(50 + shard), folder / f"{shard}.parquet")
    parquet.write_table(table(50, label=[float(n) for n in range(50)]), folder / "4.parquet")
    parquet.write_table(table(50).drop_columns(["text"]), folder / "5.parquet")
    report = report_on(folder)
    assert rules_of(report) == ["DAT304", "DAT305"]
    assert "4.parquet has label as double" in report.findings[0].title
    assert "5.parquet lacks text" in report.findings[1].title


def test_values_of_parquet_are_read_on_request(tmp_path: Path) -> None:
    rows = [float(n) for n in range(100)]
    rows[42] = float("nan")
    made = pyarrow.table({"x": rows, "label": [n % 12 for n in range(100)], "maybe": [None, 1.0] * 50})
    parquet.write_table(made, tmp_path / "a.parquet")
    report = report_on(tmp_path / "a.parquet", asked=ReadRequest(values=True, classes=10))
    assert rules_of(report) == ["DAT308", "NUM301"]
    assert "x in a.parquet holds 1 NaN values, first in record 42" in report.findings[1].title
    assert "0 to 11" in report.findings[0].title and "record 10" in report.findings[0].title


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("packing", [None, "zstd", "lz4"])
def test_arrow_files_and_streams(tmp_path: Path, kind: str, packing: str | None) -> None:
    path = tmp_path / "a.arrow"
    options = pyarrow.ipc.IpcWriteOptions(compression=packing)
    maker = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
    with maker(str(path), table().schema, options=options) as writer:
        for begin in range(0, ROWS, 1000):
            writer.write_table(table().slice(begin, 1000))
    found = looked(path)
    assert (found.format, found.records, len(found.bad)) == ("arrow", ROWS, 0)
    whole = path.read_bytes()
    for by in (3, 200, len(whole) // 2):
        path.write_bytes(whole[:-by])
        found = looked(path)
        if kind == "file" or by > 8:
            assert kinds(found), (kind, by)
        assert set(kinds(found)) <= {"truncated", "corrupt"}


def test_an_arrow_batch_that_cannot_be_decoded_is_named_with_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    begins = []
    with path.open("wb") as stream, pyarrow.ipc.new_file(stream, table().schema, options=options) as writer:
        for begin in range(0, ROWS, 1000):
            begins.append(stream.tell())
            writer.write_table(table().slice(begin, 1000))
    data = bytearray(path.read_bytes())
    content = begins[2] + 8 + int.from_bytes(data[begins[2] + 4 : begins[2] + 8], "little")
    data[content + 20 : content + 400] = bytes(380)
    path.write_bytes(bytes(data))
    found = looked(path)
    assert [(b.kind, b.record, b.offset) for b in found.bad.first] == [("corrupt", 2000, begins[2])]


def test_arrow_with_dictionaries_and_feather(tmp_path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    made = table(100).append_column("kind", pyarrow.array(["a", "b"] * 50).dictionary_encode())
    feather.write_feather(made, str(tmp_path / "a.feather"))
    found = looked(tmp_path / "a.feather")
    assert (found.format, found.records, len(found.bad)) == ("arrow", 100, 0)
    cut(tmp_path / "a.feather", 10)
    assert "truncated" in kinds(looked(tmp_path / "a.feather"))


def test_text_in_arrow_that_is_no_utf8_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(str(path), table(10).schema) as writer:
        writer.write_table(table(10))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"row 3", b"row\xff3"))
    assert kinds(looked(path)) == ["corrupt"]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_the_longest_text_and_list_of_a_table_are_told(tmp_path: Path, name: str) -> None:
    made = table(3, text=["ä", "äöü", None], ids=[[1] * 4, None, [1] * 900])
    if name == "a.parquet":
        parquet.write_table(made, tmp_path / name, row_group_size=1)
    else:
        with pyarrow.OSFile(str(tmp_path / name), "wb") as sink, pyarrow.ipc.new_file(sink, made.schema) as writer:
            writer.write_table(made, max_chunksize=1)
    found = {each.name: each.longest for each in looked(tmp_path / name).fields}
    assert found == {"x": None, "label": None, "text": 3, "ids": 900}
