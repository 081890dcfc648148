# SPDX-License-Identifier: Apache-2.0
"""JSON lines, CSV and raw tokens, as Python's own modules write them, damaged."""

from __future__ import annotations

import array
import bz2
import csv
import gzip
import json
import lzma
import struct
from pathlib import Path

import pytest

from keepstep.check.data.readers import lines
from tests.check.data.files import cut, flip, kinds, looked, report_on, rules_of


def write_lines(path: Path, rows: int = 50) -> list[str]:
    texts = [json.dumps({"text": f"row {n} ä", "label": n % 3}, ensure_ascii=False) for n in range(rows)]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return texts


def test_good_lines_are_good_under_any_name(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl")
    write_lines(tmp_path / "part-00000")
    for name in ("a.jsonl", "part-00000"):
        found = looked(tmp_path / name)
        assert (found.format, found.records, len(found.bad)) == ("jsonl", 50, 0)
        assert [(f.name, f.dtype) for f in found.fields] == [("label", "number"), ("text", "text")]


def test_a_bad_line_is_named_by_number_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = write_lines(path)
    begin = sum(len(text.encode()) + 1 for text in texts[:20])
    flip(path, begin)
    found = looked(path)
    assert [(b.kind, b.record, b.offset, b.line) for b in found.bad.first] == [("corrupt", 20, begin, 21)]


@pytest.mark.parametrize("wrong", [b"\0\0\0\0\n", b'{"a": \xff}\n', b"<html>\n", b'{"a": 1} {"b": 2}\n'])
def test_lines_that_are_not_json(tmp_path: Path, wrong: bytes) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path)
    path.write_bytes(path.read_bytes() + wrong)
    assert [(b.kind, b.record) for b in looked(path).bad.first] == [("corrupt", 50)]


def test_a_last_line_that_is_cut_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path)
    cut(path, 5)
    assert kinds(looked(path)) == ["truncated"]
    write_lines(path)
    cut(path, 1)
    assert kinds(looked(path)) == [], "only the line end is missing"


def test_a_line_without_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"x" * (9 << 20) + b'"}\n{"a": 2}\n')
    found = looked(path)
    assert [(b.record, b.offset) for b in found.bad.first] == [(1, 9)]
    assert found.records == 3


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_lines(tmp_path: Path, ending: str, pack: object) -> None:
    plain = tmp_path / "a.jsonl"
    write_lines(plain, 3000)
    path = tmp_path / f"b.jsonl.{ending}"
    path.write_bytes(pack(plain.read_bytes()))  # type: ignore[operator]
    found = looked(path)
    assert (found.format, found.records, len(found.bad), found.protected) == ("jsonl", 3000, 0, True)
    cut(path, 40)
    assert "truncated" in kinds(looked(path))
    path.write_bytes(pack(plain.read_bytes()))  # type: ignore[operator]
    flip(path, path.stat().st_size // 2)
    assert kinds(looked(path))


def write_csv(path: Path, rows: int = 40, **settings: object) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, **settings)  # type: ignore[arg-type]
        writer.writerow(["text", "x", "label"])
        for n in range(rows):
            writer.writerow([f'line {n}\nwith "quotes", and more', n * 0.5, n % 3])


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path)
    found = looked(path)
    assert (found.format, found.records, len(found.bad)) == ("csv", 40, 0)
    assert [f.name for f in found.fields] == ["text", "x", "label"]
    text = path.read_text()
    path.write_text(text.replace("4.5,0", "4.5"))
    assert [(b.kind, b.record, b.line) for b in looked(path).bad.first] == [("corrupt", 9, 20)]
    path.write_text(text[:-8])
    assert kinds(looked(path)) == ["truncated"]
    path.write_bytes(text.encode() + b"x,\xff,1\r\n")
    assert kinds(looked(path)) == ["corrupt"]
    path.write_bytes(text.encode() + b"\0\0\0\0\0")
    assert "corrupt" in kinds(looked(path))
    path.write_text("text,x,label\n")
    assert kinds(looked(path)) == ["empty"]


def test_other_delimiters(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.tsv", delimiter="\t")
    write_csv(tmp_path / "b.csv", delimiter=";")
    assert not len(looked(tmp_path / "a.tsv").bad) and not len(looked(tmp_path / "b.csv").bad)


def test_raw_tokens(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(array.array("H", range(1000)).tobytes())
    assert (looked(path).format, len(looked(path).bad)) == ("tokens", 0)
    odd = looked(path, values=True, classes=500).odd
    assert [(each.low, each.high, each.outside) for each in odd] == [(0, 999, 0)]
    cut(path, 1)
    assert kinds(looked(path)) == ["truncated"]


def test_tokens_with_the_header_of_llm_c(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    header = struct.pack("<256i", 20240520, 1, 1000, *[0] * 253)
    path.write_bytes(header + array.array("H", range(1000)).tobytes())
    assert (looked(path).records, len(looked(path).bad)) == (1000, 0)
    cut(path, 10)
    assert kinds(looked(path)) == ["truncated"]


def test_tokens_with_the_index_of_megatron(tmp_path: Path) -> None:
    path = tmp_path / "text_document.bin"
    path.write_bytes(array.array("H", range(30)).tobytes())
    sizes = array.array("i", [10, 12, 8]).tobytes()
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 3, 4) + sizes
    (tmp_path / "text_document.idx").write_bytes(index)
    assert (looked(path).records, len(looked(path).bad)) == (3, 0)
    assert [each.longest for each in looked(path).fields] == [12]
    cut(path, 4)
    assert [(b.kind, b.offset) for b in looked(path).bad.first] == [("truncated", 56)]
    path.write_bytes(bytes(80))
    assert kinds(looked(path)) == ["index"]


def test_an_empty_file_among_good_ones_is_a_warning(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", 20 if name == "a" else 21)
    (tmp_path / "c.jsonl").write_text("")
    report = report_on(tmp_path)
    assert rules_of(report) == ["DAT302"]
    assert report.findings[0].severity.value == "warning"


def test_a_packed_bomb_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.sources.files.unpack.ALWAYS", 1 << 20)
    for name in ("a.jsonl.gz", "b.csv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"a": "' + b" " * (300 << 20)))
        found = looked(tmp_path / name)
        assert "unpack to more than" in found.unread
        assert not len(found.bad)


def test_the_longest_record_of_each_field_is_told_and_kept_in_the_manifest(tmp_path: Path) -> None:
    folder, manifest = tmp_path / "data", tmp_path / "manifest.jsonl"
    folder.mkdir()
    for name, length in (("a", 7), ("b", 2048), ("c", 30)):
        rows = [{"input_ids": [1] * 5, "text": "ä" * length, "id": 1}, {"input_ids": [1] * length, "text": "", "id": 2}]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for unchanged in (False, True):
        told = [each.what for each in report_on(folder, manifest=manifest).coverage]
        assert "the length of each record (the longest: input_ids 2,048 values and text 2,048 characters)" in told
        assert any("3 files unchanged" in each for each in told) is unchanged
