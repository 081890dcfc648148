# SPDX-License-Identifier: Apache-2.0
"""MDS and LitData shards that their own writers made (``made/make.py``), damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from keepstep.check.data.find.walk import walk
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from tests.check.data.files import cut, flip, kinds, report_on, rules_of

MADE = Path(__file__).with_name("made")
EVERY = ("mds", "mds_plain", "mds_zstd", "litdata", "litdata_zstd")


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shutil.copytree(MADE / request.param, tmp_path / "data")
    return tmp_path / "data"


def looked_at(folder: Path) -> dict[str, UnitRead]:
    units = [unit for unit in walk([str(folder)]) if isinstance(unit, DataUnit)]
    return {Path(unit.path).name: read_unit(unit, ReadRequest()) for unit in units}


def shards(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "index.json")


@pytest.mark.parametrize("folder", EVERY, indirect=True)
def test_what_the_writers_wrote_is_good(folder: Path) -> None:
    found = looked_at(folder)
    assert len(found) == len(shards(folder))
    assert {name: kinds(each) for name, each in found.items()} == {name: [] for name in found}
    assert sum(each.records or 0 for each in found.values()) == 24
    assert all(each.protected for each in found.values()) is (folder.name == "data" and "hashes" in _hashed(folder))


def _hashed(folder: Path) -> set[str]:
    shard = json.loads((folder / "index.json").read_text()).get("shards", [{}])[0]
    return {"hashes"} if shard.get("raw_data", {}).get("hashes") else set()


@pytest.mark.parametrize("folder", EVERY, indirect=True)
def test_a_shard_cut_short_is_named(folder: Path) -> None:
    cut(shards(folder)[1], 20)
    found = looked_at(folder)
    assert [name for name, each in found.items() if kinds(each)] == [shards(folder)[1].name]
    assert "truncated" in kinds(found[shards(folder)[1].name])


@pytest.mark.parametrize("folder", EVERY, indirect=True)
def test_a_shard_that_is_gone_is_missing(folder: Path) -> None:
    gone = shards(folder)[0]
    gone.unlink()
    report = report_on(folder)
    assert rules_of(report) == ["DAT301"]
    assert f"{gone.name} is missing" in report.findings[0].title


@pytest.mark.parametrize("folder", ["mds"], indirect=True)
def test_hashes_in_the_index_reveal_one_flipped_bit(folder: Path) -> None:
    flip(shards(folder)[2], 400)
    assert "its sha1 is not the one in the index" in looked_at(folder)[shards(folder)[2].name].bad.first[0].how


@pytest.mark.parametrize("folder", ["mds_plain", "litdata"], indirect=True)
def test_a_damaged_table_of_items_is_found(folder: Path) -> None:
    flip(shards(folder)[0], 9)
    assert kinds(looked_at(folder)[shards(folder)[0].name])


@pytest.mark.parametrize("folder", ["mds_plain", "litdata"], indirect=True)
def test_damaged_sizes_inside_a_sample_are_named(folder: Path) -> None:
    path = shards(folder)[0]
    offset = int.from_bytes(path.read_bytes()[12:16], "little")  # the third sample
    flip(path, offset)
    assert [(b.kind, b.record, b.offset) for b in looked_at(folder)[path.name].bad.first] == [("corrupt", 2, offset)]


@pytest.mark.parametrize("folder", ["mds_plain"], indirect=True)
def test_a_column_that_is_no_text_or_no_json_is_named(folder: Path) -> None:
    path = shards(folder)[0]
    data = path.read_bytes()
    path.write_bytes(data.replace(b'{"n":', b'["n":', 1).replace(b"sample 1", b"sample\xff1"))
    bad = looked_at(folder)[path.name].bad.first
    assert {(b.kind, b.record, b.part) for b in bad} == {
        ("corrupt", 0, "(column more)"),
        ("corrupt", 1, "(column text)"),
    }


@pytest.mark.parametrize("folder", ["mds_zstd", "litdata_zstd"], indirect=True)
def test_a_damaged_packing_is_found(folder: Path) -> None:
    path = shards(folder)[0]
    data = bytearray(path.read_bytes())
    begin = data.index(b"\x28\xb5\x2f\xfd")
    data[begin + 12 : begin + 42] = bytes(30)
    path.write_bytes(bytes(data))
    assert kinds(looked_at(folder)[path.name])


@pytest.mark.parametrize("folder", ["mds_plain"], indirect=True)
def test_an_index_that_states_another_number_of_samples(folder: Path) -> None:
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["samples"] += 1
    (folder / "index.json").write_text(json.dumps(index))
    assert kinds(looked_at(folder)["shard.00000.mds"]) == ["index"]


@pytest.mark.parametrize("folder", ["mds_plain", "litdata"], indirect=True)
def test_a_torn_index_is_reported(folder: Path) -> None:
    cut(folder / "index.json", 30)
    found = looked_at(folder)
    assert "the index cannot be read" in found["index.json"].bad.first[0].how


@pytest.mark.parametrize("folder", ["mds_plain"], indirect=True)
def test_an_index_that_leads_elsewhere_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.mds").write_bytes(b"x" * 100)
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = "../secret.mds"
    (folder / "index.json").write_text(json.dumps(index))
    assert kinds(looked_at(folder)["secret.mds"]) == ["missing"]
