# SPDX-License-Identifier: Apache-2.0
"""The label of every record, read from real files, and what a rank would get of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.check.data.labels import MOST_CLASSES, NO_LABEL, LabelOrder, Labels, joined, labels_from
from keepstep.cli.parser import run
from tests.check.data.files import looked

NAMES = ["cat", "cat", "dog", "emu", "dog"]


def read(path: Path, **asked: object) -> list[str]:
    found = looked(path, values=True, order=True, **asked)
    labels = labels_from(found.labels, found.records or 0)
    assert labels is not None, found
    return ["-" if code == NO_LABEL else labels.names[code] for code in labels.codes]


def test_labels_of_json_lines_in_words_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"x": 1.5, "label": name}) + "\n" for name in NAMES))
    assert read(path) == NAMES
    path.write_text('{"kind": 3}\nnot json\n{"other": 1}\n{"kind": 4}\n')
    assert read(path, labels=("kind",)) == ["3", "-", "-", "4"]


def test_labels_of_tables_and_records(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numpy = pytest.importorskip("numpy")
    values = [n * n % 7 for n in range(100_000)]
    parquet.write_table(arrow.table({"x": values, "label": values}), tmp_path / "a.parquet", row_group_size=30_000)
    assert read(tmp_path / "a.parquet") == list(map(str, values))
    with (
        arrow.OSFile(str(tmp_path / "c.arrow"), "wb") as out,
        arrow.ipc.new_file(out, arrow.schema([("label", arrow.int8())])) as writer,
    ):
        for begin in (0, 40):
            writer.write_batch(arrow.record_batch({"label": arrow.array(values[begin : begin + 40], arrow.int8())}))
    assert read(tmp_path / "c.arrow") == list(map(str, values[:80]))
    numpy.savez(tmp_path / "b.npz", x=numpy.zeros((100, 3)), y=numpy.array(values[:100]))
    assert read(tmp_path / "b.npz") == list(map(str, values[:100]))


def test_what_is_no_class_has_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"label": n, "tokens": n % 3}) + "\n" for n in range(MOST_CLASSES + 1)))
    assert looked(path, values=True, order=True).labels == ""
    path.write_text('{"label": [1, 2]}\n')
    assert looked(path, values=True, order=True).labels == ""
    path.write_text('{"label": 1}\n')
    assert looked(path, values=True).labels == "", "only where the plan asks for them"
    assert labels_from("nonsense", 3) is None and labels_from('{"names": [], "codes": "eJwDAAAAAAE="}', 3) is None


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=30), max_size=5))
def test_labels_of_several_files_follow_each_other(files: list[list[str]]) -> None:
    every = []
    for names in files:
        order = LabelOrder()
        order.add("label", 0, names)
        every.append(labels_from(order.packed(len(names), ()), len(names)) or Labels((), b""))
    whole = joined(every)
    assert [whole.names[code] for code in whole.codes] == [name for names in files for name in names]


def test_the_command_names_the_rank_that_never_gets_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number, name in enumerate(["cat", "dog"]):
        lines = [json.dumps({"text": f"{number} {n}", "label": name}) for n in range(60)]
        (data / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    words = ["check", "data", str(data), "--no-manifest", "--ranks", "2", "--batch", "4", "--json"]
    assert run([*words, "--policy", "jax", "--values"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["rule"] == "DAT067"
    assert finding["title"].startswith(
        "rank 1 would get label 'cat' in none of its records, all ranks together in 50.0%"
    )
    assert run([*words, "--policy", "grain-slice", "--values"]) == 0
    assert not json.loads(capsys.readouterr().out)["findings"]
    older = ["--workers" if word == "--ranks" else word for word in words]  # its first name goes on working
    assert run([*older, "--policy", "torch-sampler", "--values"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert any(each["what"] == "labels per rank" and "shuffles" in each["why"] for each in shown["coverage"])
