# SPDX-License-Identifier: Apache-2.0
"""Paths that fsspec opens: what a listing does not say, archives inside, patterns, packages that are missing."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from keepstep.check.checkup import judge
from keepstep.check.data.find.walk import walk
from keepstep.check.data.look import DataRequest, look_at_data
from keepstep.check.data.reading import read_unit
from keepstep.check.data.report.manifest import Manifest
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from keepstep.errors import UserError

fsspec = pytest.importorskip("fsspec")
LINES = b'{"a": 1}\n{"a": 2}\n'


def broken_files(*paths: str) -> list[str]:
    seen = look_at_data(DataRequest(paths=paths, jobs=1))
    return [unit.path for unit, _ in seen.broken]


def test_file_urls_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "b.jsonl").write_bytes(LINES[:-4])
    assert broken_files(f"file://{tmp_path}") == [f"{tmp_path}/b.jsonl"]
    assert broken_files(f"file://{tmp_path}/*.jsonl") == [f"{tmp_path}/b.jsonl"]


def test_members_of_archives_are_read_and_patterns_are_expanded(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("train/a.jsonl", LINES)
        archive.writestr("train/b.jsonl", LINES[:-4])
        archive.writestr("train/c.csv", "x,y\n1,2\n3\n")
    place = f"file://{tmp_path}/all.zip"
    assert broken_files(f"zip://train::{place}") == [f"zip://train/{name}::{place}" for name in ("b.jsonl", "c.csv")]
    assert broken_files(f"zip://train/*.csv::{place}") == [f"zip://train/c.csv::{place}"]
    (tmp_path / "b.jsonl").write_bytes(LINES[:-4])
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        tar.add(tmp_path / "b.jsonl", "b.jsonl")
    assert broken_files(f"tar://::{tmp_path}/all.tar") == [f"tar://b.jsonl::{tmp_path}/all.tar"]


def test_a_file_is_not_called_empty_because_a_listing_does_not_say_its_size() -> None:
    system = fsspec.filesystem("memory")
    system.pipe("/sizes/a.jsonl", LINES)
    try:
        found = read_unit(DataUnit("memory://sizes/a.jsonl", "", size=0), ReadRequest())
        assert (found.records, len(found.bad)) == (2, 0)
        (unit,) = [each for each in walk(["memory://sizes"]) if isinstance(each, DataUnit)]
        assert (unit.path, unit.size, unit.mtime_ns > 0) == ("memory:///sizes/a.jsonl", len(LINES), True)
    finally:
        system.rm("/sizes", recursive=True)


def test_what_does_not_say_whether_it_changed_is_always_read(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "m", ReadRequest())
    stated, silent = DataUnit("http://h/a.jsonl", "", 10, 7), DataUnit("http://h/b.jsonl", "", 10, 0)
    for unit in (stated, silent):
        manifest.add(unit, UnitRead("jsonl", 1), 0.0)
    manifest.write()
    again = Manifest(tmp_path / "m", ReadRequest())
    assert again.result(stated) is not None
    assert again.result(silent) is None


def test_a_package_that_is_missing_is_named_and_nothing_is_called_healthy(tmp_path: Path) -> None:
    missing = [
        (url, name)
        for url, name in (("s3://bucket/x", "s3fs"), ("gs://bucket/x", "gcsfs"), ("abfs://c/x", "adlfs"))
        if not _is_installed(name)
    ]
    if not missing:
        pytest.skip("all of them are installed")
    url, name = missing[0]
    report = judge(look_at_data(DataRequest(paths=(url,), jobs=1)).collected)
    assert (report.exit_status, report.findings) == (3, ())
    assert any(each.what == url and name in each.why for each in report.coverage)
    assert not report.is_partial, "nothing at all was read"
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    report = judge(look_at_data(DataRequest(paths=(url, str(tmp_path)), jobs=1)).collected)
    assert (report.exit_status, report.is_partial) == (3, True)


def test_an_unknown_protocol_and_a_missing_file_are_said(tmp_path: Path) -> None:
    report = judge(look_at_data(DataRequest(paths=("nosuchscheme://bucket/x",), jobs=1)).collected)
    assert [finding.rule for finding in report.findings] == ["DAT307"]
    assert "nosuchscheme" in report.findings[0].title
    with pytest.raises(UserError, match="no such file"):
        look_at_data(DataRequest(paths=(f"file://{tmp_path}/nothing.jsonl",), jobs=1))


def _is_installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None
