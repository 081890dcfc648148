# SPDX-License-Identifier: Apache-2.0
"""Links that lead out of what was given, and pipes where a description is expected: neither is opened."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from keepstep.check.data.check_files import Rescue, check_files
from keepstep.check.data.find.walk import walk
from keepstep.check.data.inside import LEADS_OUT
from keepstep.check.data.look import DataRequest
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest
from keepstep.cli.parser import run
from tests.check.data.files import looked
from tests.check.data.samples import MADE

SECRET = b"the private line\n"
GOOD = b'{"a": 1}\n{"a": 2}\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of data, beside a private file and a private folder."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "notes.jsonl").write_bytes(SECRET)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(GOOD)
    return folder


def checked(*paths: Path | str, follow: bool = False, rescue: Rescue | None = None) -> tuple[str, list[str], int]:
    """All that was said, the units that were bad, and the status."""
    request = DataRequest(paths=tuple(map(str, paths)), jobs=1, wait_s=20, follow=follow)
    done = check_files(request, None, rescue or Rescue())
    said = [str(each) for each in (*done.report.findings, *done.report.coverage)]
    return "\n".join((*said, *done.rescued)), [each.rule for each in done.report.findings], done.report.exit_status


def units_of(*paths: Path | str, follow: bool = False) -> dict[str, DataUnit]:
    found = walk(list(map(str, paths)), follow=follow)
    return {os.path.basename(each.path): each for each in found if isinstance(each, DataUnit)}


def test_a_linked_private_file_is_not_copied(data: Path, tmp_path: Path) -> None:
    (data / "a.jsonl").symlink_to("../private/notes.jsonl")
    targets = Rescue(extract=tmp_path / "out", clean=tmp_path / "clean", quarantine=tmp_path / "q.json")
    said, rules, status = checked(data, rescue=targets)
    assert (rules, status) == ([], 3)
    assert LEADS_OUT in said and "a.jsonl" in said
    assert not any(SECRET in path.read_bytes() for path in tmp_path.rglob("*") if path.parent.name in ("out", "clean"))
    said, rules, status = checked(data, follow=True, rescue=Rescue(extract=tmp_path / "followed"))
    assert (rules, status) == (["DAT301"], 1)
    assert [path.read_bytes() for path in (tmp_path / "followed").iterdir()] == [SECRET]


def test_the_command_has_the_option(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "a.jsonl").symlink_to("../private/notes.jsonl")
    assert run(["check", "data", str(data), "--no-manifest"]) == 3
    assert "--follow reads it" in " ".join(capsys.readouterr().out.split())
    assert run(["check", "data", str(data), "--no-manifest", "--follow"]) == 1


def test_links_within_what_was_given_are_followed(data: Path, tmp_path: Path) -> None:
    (data / "same.jsonl").symlink_to("good.jsonl")
    (data / "other.jsonl").symlink_to(tmp_path / "private" / "notes.jsonl")
    linked = tmp_path / "linked"
    linked.symlink_to(data)
    named = tmp_path / "named.jsonl"
    named.symlink_to("private/notes.jsonl")
    assert sorted(units_of(data)) == sorted(units_of(linked)) == ["good.jsonl", "same.jsonl"]
    assert read_unit(units_of(linked)["same.jsonl"], ReadRequest()).records == 2
    assert read_unit(units_of(named)["named.jsonl"], ReadRequest()).records == 1, "what is named is always taken"
    both = units_of(data, tmp_path / "private")
    assert read_unit(both["other.jsonl"], ReadRequest()).records == 1, "inside the other path that was given"


def test_a_file_that_becomes_a_link_after_it_was_found_is_not_read(data: Path) -> None:
    unit = units_of(data)["good.jsonl"]
    (data / "good.jsonl").unlink()
    (data / "good.jsonl").symlink_to("../private/notes.jsonl")
    found = read_unit(unit, ReadRequest())
    assert (found.unread, found.records) == (LEADS_OUT, None)


def test_linked_folders_are_walked_only_with_follow_and_only_once(data: Path) -> None:
    (data / "out").symlink_to("../private")
    (data / "loop").symlink_to(".")
    assert sorted(units_of(data)) == ["good.jsonl"]
    assert sorted(units_of(data, follow=True)) == ["good.jsonl", "notes.jsonl"]


def test_a_file_url_follows_the_same_rule(data: Path) -> None:
    (data / "a.jsonl").symlink_to("../private/notes.jsonl")
    (data / "out").symlink_to("../private")
    os.mkfifo(data / "pipe.jsonl")
    assert sorted(units_of(f"file://{data}")) == ["good.jsonl"]
    assert sorted(units_of(f"local://{data}", follow=True)) == ["a.jsonl", "good.jsonl", "notes.jsonl"]


@pytest.mark.parametrize("name", ["mds", "litdata"])
def test_a_shard_that_is_a_link_out_is_not_opened(data: Path, name: str) -> None:
    shutil.copytree(MADE / name, data / name)
    shard = next(path for path in sorted((data / name).iterdir()) if path.suffix in (".mds", ".bin"))
    shutil.move(shard, data.parent / "private" / shard.name)
    shard.symlink_to(data.parent / "private" / shard.name)
    unit = units_of(data)[shard.name]
    assert read_unit(unit, ReadRequest()).unread == LEADS_OUT
    assert read_unit(units_of(data, follow=True)[shard.name], ReadRequest()).records
    shutil.move(data / name / "index.json", data.parent / "private" / "index.json")
    (data / name / "index.json").symlink_to(data.parent / "private" / "index.json")
    assert LEADS_OUT in [why for each in walk([str(data)]) if isinstance(each, tuple) for why in each]


def test_tokens_whose_index_is_a_link_out_are_not_judged_by_it(data: Path) -> None:
    (data / "a.bin").write_bytes(bytes(8))
    (data.parent / "private" / "a.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 1) + bytes(40))
    (data / "a.idx").symlink_to("../private/a.idx")
    assert read_unit(units_of(data)["a.bin"], ReadRequest()).unread == LEADS_OUT


@pytest.mark.parametrize("what", ["chunk", "folder", "metadata"])
def test_a_zarr_store_with_a_link_out_is_not_opened(data: Path, what: str) -> None:
    zarr = pytest.importorskip("zarr")
    if not hasattr(zarr, "create_array"):
        pytest.skip("zarr 2 has another way to make arrays")
    zarr.create_array(str(data / "a.zarr"), shape=(4,), chunks=(4,), dtype="f4")[:] = 1
    moved = {"chunk": "c/0", "folder": "c", "metadata": "zarr.json"}[what]
    shutil.move(data / "a.zarr" / moved, data.parent / "private" / "moved")
    (data / "a.zarr" / moved).symlink_to(data.parent / "private" / "moved")
    if what == "metadata":
        assert "a.zarr" not in units_of(data)
    else:
        assert read_unit(units_of(data)["a.zarr"], ReadRequest()).unread == LEADS_OUT
    assert read_unit(units_of(data, follow=True)["a.zarr"], ReadRequest()).records == 4


@pytest.mark.parametrize("way", ["virtual", "external", "link"])
def test_hdf5_opens_no_other_file(data: Path, way: str) -> None:
    """A pipe in place of the other file: whoever opens it waits for ever."""
    h5py = pytest.importorskip("h5py")
    pipe = data.parent / "private" / "pipe"
    os.mkfifo(pipe)
    path = data / "a.h5"
    with h5py.File(path, "w") as made:
        made["own"] = [1, 2, 3]
        if way == "virtual":
            layout = h5py.VirtualLayout(shape=(3,), maxshape=(None,), dtype="i4")
            layout[: h5py.h5s.UNLIMITED] = h5py.VirtualSource(str(pipe), "x", shape=(3,), maxshape=(None,))[
                : h5py.h5s.UNLIMITED
            ]
            made.create_virtual_dataset("other", layout)
        elif way == "external":
            made.create_dataset("other", shape=(3,), dtype="i4", external=[(str(pipe), 0, 12)])
        else:
            made["other"] = h5py.ExternalLink(str(pipe), "/x")
    request = DataRequest(paths=(str(path),), asked=ReadRequest(values=True), jobs=1, wait_s=2)
    report = check_files(request, None, Rescue()).report
    assert report.exit_status == 3 and not report.findings, report.findings
    assert any("other" in each.why and "not opened" in each.why for each in report.coverage), report.coverage


DESCRIPTIONS = ("zarr.json", ".zarray", ".zgroup", ".zmetadata", ".zattrs", "index.json", "dataset_info.json", "a.idx")


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_pipe_in_place_of_a_description_holds_nothing_up(data: Path, name: str) -> None:
    (data / "a.bin").write_bytes(bytes(8))
    os.mkfifo(data / name)
    units = units_of(data)
    for unit in units.values():
        read_unit(unit, ReadRequest())
    assert "good.jsonl" in units
    if name in (".zarray", ".zgroup", "zarr.json", ".zmetadata", "index.json"):
        assert ("special", str(data / name), "not a regular file") in list(walk([str(data)]))


def test_pipes_within_a_store_and_behind_an_index_hold_nothing_up(data: Path) -> None:
    (data / "a.zarr").mkdir()
    (data / "a.zarr" / ".zarray").write_text("{}")
    for name in (".zattrs", "0", "zarr.json"):
        os.mkfifo(data / "a.zarr" / name)
        assert read_unit(units_of(data)["a.zarr"], ReadRequest()).unreadable == "not a regular file", name
        os.unlink(data / "a.zarr" / name)
    shard = {"raw_data": {"basename": "s.mds", "bytes": 3}, "format": "mds", "samples": 1}
    (data / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    os.mkfifo(data / "s.mds")
    assert read_unit(units_of(data)["s.mds"], ReadRequest()).unreadable == "not a regular file"
    os.mkfifo(data / "named.jsonl")
    assert checked(data / "named.jsonl", data)[2] == 1
    assert looked(data / "good.jsonl").records == 2
