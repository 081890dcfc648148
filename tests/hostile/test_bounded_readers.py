# SPDX-License-Identifier: Apache-2.0
"""No file makes a reader take more memory than a stated bound, or raise anything but its own error."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstep.base import foreign_json
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.sync import RecordedCollective
from keepstep.model.identity import MOST_RANKS, everyone
from keepstep.parse.formats import flight_recorder, plain_pickle
from keepstep.signals import blackbox
from keepstep.sources.files import unpack
from keepstep.sources.files.left_files import Chunks, FileKind, LeftFile
from keepstep.sources.recorded.memory_series import read_metrics
from keepstep.sources.recorded.own_records import read_own
from keepstep.store import run_folders


@pytest.fixture
def most_megabytes() -> Iterator[Callable[[], float]]:
    """How much Python had to hold at once."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()


def shared(depth: int = 30) -> list[Any]:
    """A list that is small in a pickle, and 10 to the power of ``depth`` words when it is written out."""
    found: list[Any] = ["x"]
    for _ in range(depth):
        found = [found] * 10
    return found


ENTRY = {
    "collective_seq_id": 1,
    "profiling_name": "nccl:all_reduce",
    "state": "started",
    "input_sizes": [[3]],
    "output_sizes": [[3]],
}


@pytest.mark.parametrize(
    "field",
    ["input_sizes", "output_sizes", "process_group", "input_dtypes", "frames", "state", "pg_id", "profiling_name"],
)
def test_lists_that_share_lists_are_not_written_out(field: str, most_megabytes: Callable[[], float]) -> None:
    entry = {**ENTRY, field: shared()}
    if field == "frames":
        entry["frames"] = [{"name": shared(), "filename": shared(), "line": shared()}]
    status = {"0": {"last_enqueued_collective": shared()}}
    data = pickle.dumps({"pg_config": {"0": {"ranks": shared()}}, "entries": [entry], "pg_status": status}, 2)
    assert len(data) < 5000
    facts = flight_recorder.read(data)
    assert most_megabytes() < 5
    assert [f.seq for f in facts if isinstance(f, RecordedCollective)] == ([] if field == "profiling_name" else [1])


def test_a_list_that_holds_itself_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)
    (fact,) = flight_recorder.read(pickle.dumps({"entries": [{**ENTRY, "input_sizes": endless}]}, 2))
    assert isinstance(fact, RecordedCollective) and fact.sizes == "? -> [[3]]"


def test_tuples_as_keys_are_refused_before_they_are_hashed() -> None:
    """The hash of a tuple asks every tuple in it, each time it stands there: 2 to the power of 60 of them."""
    with pytest.raises(flight_recorder.NotADump):
        flight_recorder.read(b"\x80\x02}()" + b"q\x00h\x00\x86" * 60 + b"K\x01u.")


@pytest.mark.parametrize("opcode", [b"]", b"}", b")\x85"])
def test_a_pickle_of_nothing_but_containers_is_given_up(opcode: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_CONTAINERS", 1000)
    with pytest.raises(flight_recorder.NotADump, match="too long"):
        flight_recorder.read(b"\x80\x02(" + opcode * 1001 + b"l.")


def test_groups_that_share_one_list_of_ranks_have_a_bound_together(most_megabytes: Callable[[], float]) -> None:
    ranks = list(range(20_000))
    entries = [{**ENTRY, "process_group": (str(n), "x")} for n in range(1100)]
    facts = flight_recorder.read(
        pickle.dumps({"pg_config": {str(n): {"ranks": ranks} for n in range(1100)}, "entries": entries}, 2)
    )
    assert len(facts) == flight_recorder.MOST_GROUPS
    assert sum(len(f.members) for f in facts if isinstance(f, RecordedCollective)) <= flight_recorder.MOST_MEMBERS
    assert most_megabytes() < 100


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 200_000, "NaN", "[Infinity]", "1e999", "-1e999", "1" * 5000, "", "{", '"\ud800', "[1,]"],
    ids=lambda text: text[:6],
)
def test_json_that_cannot_be_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        foreign_json.loads(text)
    with pytest.raises(ValueError):
        foreign_json.loads(text.encode(errors="surrogatepass"))


def test_json_has_a_bound_on_its_parts() -> None:
    with pytest.raises(ValueError, match="parts"):
        foreign_json.loads("[" + "[]," * 1000 + "[]]", most_parts=1000)


def test_halves_of_surrogate_pairs_become_a_sign_that_can_be_written() -> None:
    assert foreign_json.loads(r'["\ud83d\ude00", "\ud800", "a\udc00b", "\\ud800"]') == [
        "\U0001f600",
        "\ufffd",
        "a\ufffdb",
        "\\ud800",
    ]
    assert foreign_json.loads(b'"\xed\xa0\x80"').encode()


def test_a_world_of_any_size_fits_into_memory() -> None:
    assert len(everyone(10**30)) == MOST_RANKS
    assert list(everyone(3)) == [0, 1, 2]


# -- packed files


def packed(how: str, data: bytes) -> bytes:
    if how == "zst":
        return bytes(pytest.importorskip("zstandard").compress(data))
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[how](data)


@pytest.mark.parametrize("how", ["gz", "bz2", "xz", "zst"])
def test_a_file_that_unpacks_to_too_much_is_left_there_and_said(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_megabytes: Callable[[], float]
) -> None:
    monkeypatch.setattr(unpack, "ALWAYS", 4 << 20)
    path = tmp_path / f"rank0.log.{how}"
    path.write_bytes(packed(how, b"step 1\n" + bytes(400 << 20) if how == "zst" else b"step 1\n" + b"a" * (64 << 20)))
    left = LeftFile(path, path.name, FileKind.LOG, path.stat().st_size, stored=path.stat().st_size)
    before = most_megabytes()
    chunks = Chunks(left)
    read = sum(map(len, chunks))
    most = max(4 << 20, unpack.MOST_TIMES * left.size)
    assert most < read <= most + (34 << 20)
    assert chunks.problem is None and chunks.stopped is not None and "unpack to more than" in chunks.stopped
    assert most_megabytes() < before + 80


@pytest.mark.parametrize("how", ["gz", "bz2", "xz", "zst"])
def test_what_is_packed_well_but_small_is_read_to_its_end(how: str) -> None:
    data = b"the same line again\n" * 40_000
    small = packed(how, data)
    assert b"".join(unpack.unpacked(io.BytesIO(small * 2), how, len(small) * 2)) == data * 2
    with pytest.raises(unpack.Damaged):
        list(unpack.unpacked(io.BytesIO(small[:-9]), how, len(small) - 9))


def test_an_xz_that_wants_gigabytes_of_tables_is_refused() -> None:
    data = lzma.compress(b"x" * 1000, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}])
    with pytest.raises(unpack.Damaged, match=r"(?i)memory"):
        list(unpack.unpacked(io.BytesIO(data), "xz", len(data)))


def test_a_bomb_is_never_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from keepstep.analyze.why import explain_paths
    from keepstep.model.report import Verdict

    monkeypatch.setattr(unpack, "ALWAYS", 1 << 20)
    (tmp_path / "rank0.log.gz").write_bytes(gzip.compress(b"step 1 loss 0.5\n" * 1_000_000))
    report = explain_paths([tmp_path]).report
    assert report.verdict is not Verdict.HEALTHY
    assert any("unpack to more than" in each.why for each in report.coverage)


# -- keepstep's own files, of the wrong types

WRONG: list[Any] = [
    None,
    True,
    -1,
    1e300,
    10**400,
    float("nan"),
    "x",
    "nan",
    "\ud800",
    "\x00",
    [],
    [[]],
    {},
    {"a": []},
    "9" * 5000,
    2**63,
    [None],
]


def manifest(**wrong: Any) -> dict[str, Any]:
    attempts = [{"number": 0, "began": 1.0, "ended": 2.0, "status": 1}]
    return {
        "schema": run_folders.SCHEMA,
        "name": "a",
        "command": ["x"],
        "cwd": "/",
        "began": 1.0,
        "ranks": 2,
        "attempts": attempts,
        **wrong,
    }


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_a_manifest_with_a_wrong_type_is_passed_over_or_sound(wrong: Any, tmp_path: Path) -> None:
    fields = [*run_folders.RunManifest.__dataclass_fields__, "schema"]
    for field in fields:
        (tmp_path / run_folders.MANIFEST).write_text(json.dumps(manifest(**{field: wrong})), errors="replace")
        _is_sound(tmp_path)
    for field in run_folders.AttemptSaid.__dataclass_fields__:
        attempt = {"number": 0, "began": 1.0, field: wrong}
        (tmp_path / run_folders.MANIFEST).write_text(json.dumps(manifest(attempts=[attempt])))
        _is_sound(tmp_path)


def _is_sound(folder: Path) -> None:
    said = run_folders.read_manifest(folder)
    run_folders.attempt_to_explain(folder)
    run_folders.attempts_to_explain(folder)
    assert run_folders.manifest_problem(folder) is None or said is None
    if said is not None:
        assert said.began + (said.ended or 0.0) >= 0 and said.ranks >= 0
        assert "".join([said.name, *said.command, *said.roles]).encode() is not None


def test_a_damaged_manifest_is_said(tmp_path: Path) -> None:
    (tmp_path / run_folders.MANIFEST).write_text(json.dumps(manifest(attempts={"a": 1})))
    assert run_folders.read_manifest(tmp_path) is None
    assert "damaged" in (run_folders.manifest_problem(tmp_path) or "")
    (tmp_path / run_folders.MANIFEST).write_text(
        json.dumps(manifest(attempts=[{"number": 3, "began": 1.0}, {"number": 1, "began": 1.0}]))
    )
    assert "numbered consecutively" in (run_folders.manifest_problem(tmp_path) or "")
    (tmp_path / run_folders.MANIFEST).write_text('{"schema": "somebody.else/1"}')
    assert run_folders.manifest_problem(tmp_path) is None


def box(**wrong: Any) -> bytes:
    who = {
        "pid": 7,
        "rank": 0,
        "world": 2,
        "host": "a",
        "wall": 1e9,
        "monotonic": 1,
        "started": 5,
        "files": ["train.py"],
        **wrong,
    }
    text = json.dumps(who).encode()[: blackbox.SLOT_SIZE - 4]
    head = bytearray(blackbox.HEADER_SIZE)
    blackbox.HEAD.pack_into(head, 0, blackbox.MAGIC, blackbox.RECORD.size, 16, 0, 0)
    blackbox.SLOT_HEAD.pack_into(head, blackbox.SLOTS[0], len(text))
    head[blackbox.SLOTS[0] + 4 : blackbox.SLOTS[0] + 4 + len(text)] = text
    kinds = [
        (blackbox.RecordKind.PHASE, 3, 0),
        (blackbox.RecordKind.STEP, 1, 5),
        (blackbox.RecordKind.COLLECTIVE, 3, -1),
        (blackbox.RecordKind.PLAN, -1, 1),
        (blackbox.RecordKind.GOODBYE, -9, 2**62),
    ]
    records = [
        blackbox.RECORD.pack(n, 2**64 - n, value, extra, kind, 2**32 - 1, n)
        for n, (kind, value, extra) in enumerate(kinds, 1)
    ]
    return bytes(head) + bytes(blackbox.RECORD.size) + b"".join(records)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_a_black_box_with_a_wrong_type_is_read_without_it(wrong: Any, tmp_path: Path) -> None:
    for field in (
        "pid",
        "rank",
        "world",
        "local",
        "role",
        "attempt",
        "job",
        "host",
        "wall",
        "monotonic",
        "started",
        "killed_as",
        "run",
        "files",
    ):
        for name in ("a", "b"):
            (tmp_path / f"{name}.box").write_bytes(box(**{field: wrong}))
        found, coverage = read_own(LeftFile(path, path.name, FileKind.BLACK_BOX) for path in tmp_path.iterdir())
        assert found and coverage, field
        for each in found:
            from_dict(to_dict(each))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_notes_and_metrics_with_a_wrong_type_are_counted_as_damaged_or_sound(wrong: Any, tmp_path: Path) -> None:
    good = to_dict(Evidence(fact=PortTaken(port=1), origin=Origin(source="x", line=1)))
    notes = [good, wrong, *({**good, field: wrong} for field in ("fact", "fields", "origin", "rank", "at", "quote"))]
    notes += [
        {**good, "rank": {"index": wrong}},
        {**good, "origin": {"source": wrong}},
        {**good, "fields": {"port": wrong}},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in notes), errors="replace")
    left = LeftFile(tmp_path / "a.jsonl", "a.jsonl", FileKind.NOTES)
    found, coverage = read_own([left])
    assert found and [c.why for c in coverage] == ["damaged"]

    fine = {
        "schema": "keepstep.metrics/1",
        "at": 1.0,
        "memory": {"total": 10, "available": 5},
        "ranks": {"0": {"steps": 1, "own": 5}},
    }
    measured = [fine, wrong, *({**fine, field: wrong} for field in ("at", "memory", "ranks"))]
    measured += [
        {**fine, "ranks": {"0": wrong}},
        {**fine, "ranks": {"0": {"steps": wrong, "own": wrong, "epoch": wrong}}},
        {**fine, "memory": {"total": wrong, "available": wrong}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in measured), errors="replace")
    read_metrics([LeftFile(tmp_path / "metrics.jsonl", "metrics.jsonl", FileKind.METRICS)])


def test_numbers_of_a_fact_that_nothing_can_be_done_with_are_refused() -> None:
    good = to_dict(Evidence(fact=WorldSeen(size=4), origin=Origin(source="x")))
    for wrong in (10**400, True, "4", 4.5):
        with pytest.raises(ValueError):
            from_dict({**good, "fields": {"size": wrong}})
    for index in (-1, MOST_RANKS):
        with pytest.raises(ValueError):
            from_dict({**good, "rank": {"index": index}})


def test_a_packed_log_that_is_cut_off_is_never_healthy(tmp_path: Path) -> None:
    from keepstep.analyze.why import explain_paths
    from keepstep.model.report import Verdict
    from keepstep.render.html import render_html
    from keepstep.render.terminal import render_terminal

    data = gzip.compress(b"".join(b"shard %d is loaded\n" % n for n in range(20_000)))
    (tmp_path / "rank0.log.gz").write_bytes(data[: len(data) // 2])
    report = explain_paths([tmp_path]).report
    assert report.verdict is Verdict.UNKNOWN and report.exit_status == 3
    assert "not everything could be checked" in render_terminal(
        report
    ) and "not everything could be checked" in render_html(report)
