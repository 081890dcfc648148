# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of formats: a good file of it is good, a damaged one is named, and its parts are all there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from keepstep.check.data import readers
from keepstep.check.data.find.walk import walk
from keepstep.check.data.formats import FORMATS
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from tests.check.data.files import cut
from tests.check.data.samples import SAMPLES


def sample(kind: str, folder: Path) -> Path:
    try:
        return SAMPLES[kind](folder)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


def looked_at(folder: Path) -> list[UnitRead]:
    return [read_unit(unit, ReadRequest()) for unit in walk([str(folder)]) if isinstance(unit, DataUnit)]


def test_every_format_has_a_sample_and_every_sample_a_format() -> None:
    assert sorted(set(FORMATS) - set(SAMPLES)) == [], "write a sample of it in tests/check/data/samples.py"
    assert sorted(set(SAMPLES) - set(FORMATS)) == [], "add its row to check/data/formats.py"


def test_every_reader_has_a_row_and_every_row_its_reader() -> None:
    (folder,) = readers.__path__
    found = {path.stem for path in Path(folder).glob("*.py") if "\ndef read" in path.read_text("utf-8")}
    assert found == set(FORMATS), "a row of check/data/formats.py and check/data/readers/<kind>.py belong together"
    for kind, row in FORMATS.items():
        assert hasattr(importlib.import_module(f"{readers.__name__}.{kind}"), "read_store" if row.is_store else "read")


def test_no_two_formats_claim_one_name_or_the_same_first_bytes() -> None:
    for claims in ([each.endings for each in FORMATS.values()], [each.magic for each in FORMATS.values()]):
        claimed = [one for some in claims for one in some]
        assert len(claimed) == len(set(claimed))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_good_file_is_good(kind: str, tmp_path: Path) -> None:
    sample(kind, tmp_path)
    found = looked_at(tmp_path)
    assert {each.format for each in found} == {kind}
    assert [(each.bad.first, each.unread, each.unreadable, each.missing_library) for each in found] == [
        ([], "", "", "")
    ] * len(found)
    assert all(each.records for each in found)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_cut_short_is_named(kind: str, tmp_path: Path) -> None:
    cut(sample(kind, tmp_path), 5)
    (bad,) = [each for each in looked_at(tmp_path) if len(each.bad)]
    assert bad.format == kind


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_without_bytes_is_named(kind: str, tmp_path: Path) -> None:
    sample(kind, tmp_path).write_bytes(b"")
    (bad,) = [each for each in looked_at(tmp_path) if len(each.bad)]
    assert bad.format == kind
