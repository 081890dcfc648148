# SPDX-License-Identifier: Apache-2.0
"""TFRecord files as TensorFlow writes them, damaged in every way that the format can reveal."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from keepstep.check.data.look import DataRequest, look_at_data
from keepstep.check.data.readers.source import native_crc
from keepstep.check.data.readers.tfrecord import FIRST_RECORDS
from keepstep.check.data.report.clean import clean
from keepstep.check.data.report.extract import extract, quarantine
from keepstep.check.data.report.locate import where
from keepstep.check.data.units import ReadRequest
from keepstep.errors import UserError
from keepstep.parse.formats.data import tfrecord
from tests.check.data.files import cut, flip, kinds, looked, report_on, rules_of
from tests.lazy_framework import lazy_framework

pytestmark = pytest.mark.frameworks
tensorflow = lazy_framework("tensorflow")
pytest.importorskip("crc32c")

RECORDS = 40


def example(number: int, **changed: Any) -> bytes:
    train = tensorflow.train
    values = {"x": [0.5 * number, 1.0, 2.0], "label": [number % 10], "name": [b"n%d" % number]} | changed
    made = {}
    for name, value in values.items():
        if isinstance(value[0], bytes):
            made[name] = train.Feature(bytes_list=train.BytesList(value=value))
        elif isinstance(value[0], float):
            made[name] = train.Feature(float_list=train.FloatList(value=value))
        else:
            made[name] = train.Feature(int64_list=train.Int64List(value=value))
    return bytes(train.Example(features=train.Features(feature=made)).SerializeToString())


def write(path: Path, records: list[bytes], packing: str = "") -> Path:
    with tensorflow.io.TFRecordWriter(str(path), options=packing or None) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.fixture
def records() -> list[bytes]:
    return [example(number) for number in range(RECORDS)]


@pytest.fixture
def path(tmp_path: Path, records: list[bytes]) -> Path:
    return write(tmp_path / "train-0.tfrecord", records)


def offset_of(records: list[bytes], number: int) -> int:
    return sum(len(record) + 16 for record in records[:number])


@pytest.mark.parametrize("packing", ["", "GZIP", "ZLIB"])
def test_a_good_file_has_its_records_and_fields(tmp_path: Path, records: list[bytes], packing: str) -> None:
    found = looked(write(tmp_path / "good.tfrecord", records, packing))
    assert (found.format, found.records, len(found.bad)) == ("tfrecord", RECORDS, 0)
    assert found.protected
    assert {(f.name, f.dtype, f.shape) for f in found.fields} == {
        ("label", "int64", "1"),
        ("name", "bytes", "1"),
        ("x", "float32", "3"),
    }


@pytest.mark.parametrize("number", [0, 17, RECORDS - 1])
def test_a_flipped_bit_in_the_data_names_record_and_byte(path: Path, records: list[bytes], number: int) -> None:
    begin = offset_of(records, number)
    flip(path, begin + 12 + 5)
    found = looked(path)
    assert [(b.kind, b.record, b.offset, b.length) for b in found.bad.first] == [
        ("corrupt", number, begin, len(records[number]) + 16)
    ]
    assert found.records == RECORDS


@pytest.mark.parametrize("place", [0, 3, 9, 11])
def test_a_flipped_bit_in_a_header_is_found_and_so_is_the_next_record(
    path: Path, records: list[bytes], place: int
) -> None:
    flip(path, offset_of(records, 20) + place)
    found = looked(path)
    assert [(b.record, b.offset, b.length) for b in found.bad.first] == [
        (20, offset_of(records, 20), len(records[20]) + 16)
    ]
    assert f"begins at byte {offset_of(records, 21):,}" in found.bad.first[0].how
    assert found.records == RECORDS


def test_a_flipped_bit_in_the_crc_of_the_data_counts_too(path: Path, records: list[bytes]) -> None:
    flip(path, offset_of(records, 8) - 1)
    assert [b.record for b in looked(path).bad.first] == [7]


@pytest.mark.parametrize("by", [1, 4, 30, 60])
def test_a_tail_cut_short_is_named(path: Path, records: list[bytes], by: int) -> None:
    cut(path, by)
    found = looked(path)
    ends = path.stat().st_size
    number = max(n for n in range(RECORDS) if offset_of(records, n) < ends)
    assert [(b.kind, b.record, b.offset) for b in found.bad.first] == [
        ("truncated", number, offset_of(records, number))
    ]


def test_what_is_there_of_a_record_that_was_cut_is_said(path: Path, records: list[bytes]) -> None:
    cut(path, 4)
    whole = len(records[-1]) + 16
    assert f"{whole - 4} of its {whole} bytes are there" in looked(path).bad.first[0].how


def test_a_single_byte_too_many_is_all_that_is_lost(path: Path, records: list[bytes]) -> None:
    data, place = path.read_bytes(), offset_of(records, 6)
    path.write_bytes(data[:place] + b"\x07" + data[place:])
    found = looked(path)
    assert [(b.record, b.offset, b.length) for b in found.bad.first] == [(6, place, 1)]


def test_a_cut_between_records_cannot_be_seen_and_is_not_invented(path: Path, records: list[bytes]) -> None:
    cut(path, len(records[-1]) + 16)
    found = looked(path)
    assert (len(found.bad), found.records) == (0, RECORDS - 1)


def test_zeros_at_the_end_of_a_file_are_called_zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(5000))
    found = looked(path)
    assert kinds(found) == ["truncated"]
    assert "only zeros follow, 5,000 bytes" in found.bad.first[0].how


@pytest.mark.parametrize("packing", ["GZIP", "ZLIB"])
def test_a_packed_file_that_is_cut_or_damaged_is_found(tmp_path: Path, records: list[bytes], packing: str) -> None:
    path = write(tmp_path / "a.tfrecord.gz", records, packing)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert kinds(looked(path)) == ["truncated"]
    path.write_bytes(whole)
    flip(path, len(whole) // 2)
    assert "corrupt" in kinds(looked(path))


def test_records_longer_than_what_is_kept_in_memory(tmp_path: Path) -> None:
    long = [b"a" * 10, b"b" * (tfrecord.LONG * 6), b"c" * 10, b"d" * (tfrecord.LONG * 5 - 3), b"e"]
    path = write(tmp_path / "long.tfrecord", long)
    found = looked(path)
    assert (found.records, len(found.bad)) == (5, 0)
    flip(path, offset_of(long, 3) + 12 + tfrecord.LONG * 4)
    assert [b.record for b in looked(path).bad.first] == [3]
    cut(path, 17 + 100)
    assert [(b.kind, b.record) for b in looked(path).bad.first][-1] == ("truncated", 3)


def test_records_that_nobody_wants_are_still_compared_with_their_crc(tmp_path: Path) -> None:
    """After the first records the data of a long one is not kept: its CRC is computed from piece to piece."""
    many = [*(example(n) for n in range(FIRST_RECORDS + 5)), b"a" * (9 << 20), b"b" * (tfrecord.LONG * 2), b"c" * 9]
    path = write(tmp_path / "long.tfrecord", many)
    assert (looked(path).records, len(looked(path).bad)) == (len(many), 0)
    flip(path, offset_of(many, FIRST_RECORDS + 5) + 12 + (8 << 20))
    flip(path, offset_of(many, FIRST_RECORDS + 7) - 1)
    found = looked(path)
    assert found.records == len(many)
    assert [(b.kind, b.record, b.offset, b.length) for b in found.bad.first] == [
        ("corrupt", n, offset_of(many, n), len(many[n]) + 16) for n in (FIRST_RECORDS + 5, FIRST_RECORDS + 6)
    ]


@pytest.mark.parametrize("piece", [4096, tfrecord.LONG // 2 + 3, 26 + 12 + tfrecord.LONG * 3 + 2, tfrecord.LONG * 9])
@pytest.mark.parametrize("hit", [None, 0, tfrecord.LONG + 5, tfrecord.LONG * 3])
def test_a_long_record_in_pieces_is_right_or_wrong_by_its_crc(tmp_path: Path, piece: int, hit: int | None) -> None:
    records = [b"a" * 10, b"b" * (tfrecord.LONG * 3), b"c" * 10, b"d" * (tfrecord.LONG - 16)]
    path = write(tmp_path / "long.tfrecord", records)
    if hit is not None:
        flip(path, offset_of(records, 1) + 12 + hit)
    data, crc = path.read_bytes(), native_crc()
    assert crc is not None
    walk = tfrecord.Walk(crc)
    for start in range(0, len(data), piece):
        walk.feed(data[start : start + piece])
    walk.end()
    assert walk.records == 4
    wrong = [] if hit is None else [("corrupt", 1, offset_of(records, 1), len(records[1]) + 16)]
    assert [(b.kind, b.record, b.offset, b.length) for b in walk.bad.first] == wrong


def test_of_very_many_bad_records_the_first_hundred_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    records = [b"r" * 9] * 103
    path = write(tmp_path / "bad.tfrecord", records)
    data = bytearray(path.read_bytes())
    for number in range(103):
        data[offset_of(records, number) + 12] ^= 1
    path.write_bytes(bytes(data))
    bad = looked(path).bad
    assert (len(bad.first), bad.more, len(bad)) == (100, 3, 103)


def test_pieces_of_any_size_give_the_same_answer(records: list[bytes], path: Path) -> None:
    flip(path, offset_of(records, 11) + 20)
    flip(path, offset_of(records, 30) + 1)
    data = path.read_bytes()[:-5]
    crc = native_crc()
    assert crc is not None
    answers = set()
    for piece in (1, 7, 16, 100, 5000):
        walk = tfrecord.Walk(crc)
        for start in range(0, len(data), piece):
            walk.feed(data[start : start + piece])
        walk.end()
        answers.add((walk.records, tuple(walk.bad.first)))
    assert len(answers) == 1
    assert [b.record for b in answers.pop()[1]] == [11, 30, RECORDS - 1]


def test_a_length_beyond_any_file_takes_no_memory(tmp_path: Path) -> None:
    crc = native_crc()
    assert crc is not None
    length = struct.pack("<Q", 1 << 60)
    path = tmp_path / "bomb.tfrecord"
    path.write_bytes(length + struct.pack("<I", tfrecord.masked(crc(length))) + b"x" * 100)
    assert [(b.kind, b.record, b.offset) for b in looked(path).bad.first] == [("truncated", 0, 0)]


def test_values_are_read_on_request(tmp_path: Path) -> None:
    records = [example(n) for n in range(5)] + [example(5, x=[float("nan"), float("inf"), 1.0], label=[12])]
    path = write(tmp_path / "values.tfrecord", records)
    assert looked(path).odd == []
    odd = {each.field: each for each in looked(path, values=True, classes=10).odd}
    assert (odd["x"].nans, odd["x"].infinities, odd["x"].record) == (1, 1, 5)
    assert (odd["label"].low, odd["label"].high, odd["label"].outside) == (0, 12, 5)


def test_the_schema_is_that_of_the_first_twenty_records(tmp_path: Path) -> None:
    records = [example(n) for n in range(20)] + [example(20, later=[1.0])]
    path = write(tmp_path / "more.tfrecord", records)
    for values in (False, True):
        assert [field.name for field in looked(path, values=values).fields] == ["label", "name", "x"]
    write(path, [*records[:19], records[20]])
    assert [field.name for field in looked(path).fields] == ["label", "later", "name", "x"]


def test_values_of_records_far_into_a_file_are_read_on_request(tmp_path: Path) -> None:
    records = [*(example(n) for n in range(25)), example(25, name=[b"n" * (9 << 20)]), example(26, x=[float("nan")])]
    path = write(tmp_path / "far.tfrecord", records)
    assert {odd.field: odd.record for odd in looked(path, values=True).odd}["x"] == 26


def test_a_file_whose_first_record_is_no_example_holds_something_else(tmp_path: Path) -> None:
    odd, strange = example(3, x=[float("nan")]), b"no example at all"
    found = looked(write(tmp_path / "other.tfrecord", [strange, *(example(n) for n in range(5)), odd]), values=True)
    assert (found.fields, found.odd, found.records) == ([], [], 7)
    found = looked(write(tmp_path / "one.tfrecord", [example(0), strange, odd]), values=True)
    assert [field.name for field in found.fields] == ["label", "name", "x"]
    assert {each.field: each.record for each in found.odd}["x"] == 2


def test_the_report_names_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(6):
        write(folder / f"train-{shard}.tfrecord", [example(100 * shard + n) for n in range(20)])
    write(folder / "train-6.tfrecord", [example(n, x=[1, 2, 3]) for n in range(20)])
    (folder / "train-7.tfrecord").write_bytes(b"")
    (folder / "train-8.tfrecord").write_bytes((folder / "train-1.tfrecord").read_bytes())
    flip(folder / "train-2.tfrecord", 500)
    (folder / "README.md").write_text("not data")
    report = report_on(folder)
    assert rules_of(report) == ["DAT301", "DAT304", "DAT302", "DAT303"]
    assert "train-2.tfrecord" in report.findings[0].title and "at byte" in report.findings[0].title
    assert "x as int64" in report.findings[1].title
    assert report.exit_status == 1


def test_copies_lists_and_extracts_leave_the_originals_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    records = [example(n) for n in range(30)]
    path = write(folder / "a.tfrecord", records)
    flip(path, offset_of(records, 3) + 30)
    flip(path, offset_of(records, 9) + 2)
    cut(path, 20)
    before = path.read_bytes()
    broken = look_at_data(DataRequest(paths=(str(folder),), jobs=1)).broken
    list(clean(broken, tmp_path / "clean"))
    copy = tmp_path / "clean" / "a.tfrecord"
    kept = [bytes(each.numpy()) for each in tensorflow.data.TFRecordDataset(str(copy))]
    assert kept == [record for n, record in enumerate(records) if n not in (3, 9, 29)]
    extract(broken, tmp_path / "out")
    names = sorted(os.listdir(tmp_path / "out"))
    assert len(names) == 3
    taken = (tmp_path / "out" / names[1]).read_bytes()
    assert before[offset_of(records, 3) : offset_of(records, 4)] in [
        (tmp_path / "out" / name).read_bytes() for name in names
    ]
    assert taken
    quarantine(broken, tmp_path / "list.json")
    listed = json.loads((tmp_path / "list.json").read_text())["files"]
    assert [(each["file"], each["records"]) for each in listed] == [(str(path), [3, 9, 29])]
    assert path.read_bytes() == before


def test_a_second_check_reads_only_what_changed_and_notices_silent_changes(tmp_path: Path) -> None:
    folder, manifest = tmp_path / "data", tmp_path / "manifest.jsonl"
    folder.mkdir()
    for shard in range(3):
        write(folder / f"{shard}.tfrecord", [example(100 * shard + n) for n in range(20)])
    assert rules_of(report_on(folder, manifest=manifest)) == []
    flip(folder / "1.tfrecord", 100)  # size and time stay
    quiet = report_on(folder, manifest=manifest)
    assert rules_of(quiet) == []
    assert any("3 files unchanged" in each.what for each in quiet.coverage)
    loud = report_on(folder, manifest=manifest, again=True)
    assert sorted(rules_of(loud)) == ["DAT301", "DAT306"]
    write(folder / "2.tfrecord", [example(n + 7000) for n in range(20)])
    os.utime(folder / "2.tfrecord", (1, 1))
    later = report_on(folder, manifest=manifest)
    assert [f.severity.value for f in later.findings if f.rule == "DAT306"] == ["note"]
    assert "DAT301" in rules_of(later), "the bad file is unchanged and still bad"


def test_a_torn_manifest_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    folder, manifest = tmp_path / "data", tmp_path / "manifest.jsonl"
    folder.mkdir()
    for shard in range(3):
        write(folder / f"{shard}.tfrecord", [example(100 * shard + n) for n in range(5)])
    report_on(folder, manifest=manifest)
    manifest.write_bytes(manifest.read_bytes()[:-40])
    report = report_on(folder, manifest=manifest)
    assert any("2 files unchanged" in each.what for each in report.coverage)
    assert any("3 files unchanged" in each.what for each in report_on(folder, manifest=manifest).coverage)


def test_what_was_asked_before_does_not_answer_another_question(tmp_path: Path) -> None:
    folder, manifest = tmp_path / "data", tmp_path / "manifest.jsonl"
    folder.mkdir()
    write(folder / "0.tfrecord", [example(n, x=[float("nan")]) for n in range(5)])
    assert rules_of(report_on(folder, manifest=manifest)) == []
    assert rules_of(report_on(folder, manifest=manifest, asked=ReadRequest(values=True))) == ["NUM301"]


def test_any_sample_is_placed(tmp_path: Path) -> None:
    every = {name: [example(n) for n in range(count)] for name, count in (("a", 5), ("b", 7), ("c", 3))}
    for name, records in every.items():
        write(tmp_path / f"{name}.tfrecord", records)
    seen = look_at_data(DataRequest(paths=(str(tmp_path),), jobs=1))
    told = where(5 + 4, seen.counted())
    place = offset_of(every["b"], 4)
    assert told == f"sample 9 is record 4 of {tmp_path}/b.tfrecord, at byte {place:,}"
    assert "record 2 of" in where(14, seen.counted())
    with pytest.raises(UserError, match="there is no sample 15"):
        where(15, seen.counted())


def test_the_longest_list_of_a_feature_is_told_where_all_values_are_read(path: Path, records: list[bytes]) -> None:
    write(path, [*records, example(1, x=[1.0] * 77)])
    assert {each.name: each.longest for each in looked(path, values=True).fields} == {"x": 77, "label": 1, "name": None}
    assert {each.longest for each in looked(path).fields} == {None}
