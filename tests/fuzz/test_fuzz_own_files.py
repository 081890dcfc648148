# SPDX-License-Identifier: Apache-2.0
"""Readers of what keepstep itself writes: boxes, notes, metrics, arrivals, manifests, history."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from keepstep.analyze.report_on_attempts import of_all_attempts
from keepstep.cli.runs import _line
from keepstep.errors import UserError
from keepstep.feed.quarantine import SCHEMA, quarantined
from keepstep.feed.shard import shard
from keepstep.model.codec import fact_types, from_dict, report_to_dict, to_dict
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.report import Report, Verdict
from keepstep.render.html import render_html
from keepstep.render.json import dumps
from keepstep.render.terminal import render_terminal
from keepstep.rules import builtin_rules
from keepstep.signals import blackbox
from keepstep.sources.files.left_files import FileKind, LeftFile
from keepstep.sources.recorded.line_arrivals import with_arrivals
from keepstep.sources.recorded.memory_series import read_metrics
from keepstep.sources.recorded.own_records import read_own
from keepstep.store import failed_hosts, run_folders
from keepstep.store.history.reader import open_history
from keepstep.store.history.writer import HistoryWriter
from keepstep.story.engine import diagnose
from keepstep.supervise.watch.guard_reports import GuardReports
from tests.facts_with_signatures import KINDS
from tests.fuzz.fuzzing import NUMBERS, TEXTS, VALUES, as_json, damaged, target, torn
from tests.hostile.folder import _box

WHO = {
    "pid": 7,
    "rank": 0,
    "world": 2,
    "local": 0,
    "role": "worker",
    "attempt": 0,
    "job": "j",
    "host": "a",
    "wall": 1e9,
    "monotonic": 1,
    "hears_term": True,
    "started": 5,
    "killed_as": None,
    "run": "r",
    "files": ["train.py"],
}


def report_of(evidence: list[Evidence[Any]]) -> None:
    """All that is done with evidence: no rule may fail, and every form of the report can be written."""
    report = diagnose(EvidenceSet(items=tuple(evidence)), builtin_rules())
    assert not report.crashed, report.crashed
    render_terminal(report).encode()
    render_html(report).encode()
    dumps(report_to_dict(report))


@target(
    damaged(WHO).map(lambda who: _box(who if isinstance(who, dict) else {})) | torn(_box(WHO)),
    torn(_box({**WHO, "rank": 1, "pid": 8})),
    examples=40,
)
def test_black_boxes(one: bytes, other: bytes) -> None:
    with contextlib.suppress(blackbox.NotABox):
        box = blackbox.read(one)
        box.wall(0)
        list(blackbox.newest_first(one)) if len(
            one
        ) >= blackbox.HEADER_SIZE + blackbox.RECORD.size * blackbox.HEAD.unpack_from(one)[2] else None
    with tempfile.TemporaryDirectory() as folder:
        left = []
        for name, data in (("a.box", one), ("b.box", other)):
            (Path(folder) / name).write_bytes(data)
            left.append(LeftFile(Path(folder) / name, name, FileKind.BLACK_BOX, len(data)))
        report_of(read_own(left)[0])


@st.composite
def evidences(draw: st.DrawFn) -> Evidence[Any]:
    kind = draw(st.sampled_from(KINDS))
    return Evidence(fact=draw(st.from_type(kind)), origin=Origin(source="a.notes.jsonl", line=1), quote=draw(TEXTS))


NOTE: Any = {
    "fact": "RankEnded",
    "fields": {"goodbye": True, "steps": 3, "status": 1, "pid": 7, "world": 2},
    "origin": {"source": "pid 7", "line": 3},
    "rank": {"index": 0, "node": "a", "local": 0, "role": "x", "attempt": 0},
    "at": 1e9,
    "quote": "q",
}


STACK: Any = {"fact": "StackDump", "fields": {"frames": [], "rank": 3}, "origin": {"source": "pid 7", "line": 1}}
"""A stack without frames, which a rule asked for its last one."""
CONNECTED: Any = {
    "fact": "MeetingFailed",
    "fields": {"where": "a:1", "reached": "connected", "waited_s": "nan", "said": ""},
    "origin": {"source": "x"},
}
"""A meeting that failed though the connection stood, for which a rule had no words."""

LIMIT: Any = {"fact": "LabelOutOfRange", "fields": {"label": "0", "limit": ""}, "origin": {"source": "x"}}
"""A limit that is no number."""


@target(
    st.lists(damaged(NOTE) | VALUES | evidences().map(to_dict), max_size=4),
    TEXTS,
    examples=60,
    keep=[([STACK, CONNECTED, LIMIT], "")],
)
def test_notes(notes: list[Any], last: str) -> None:
    for each in notes:
        with contextlib.suppress(ValueError):
            to_dict(from_dict(each))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0-7.notes.jsonl"
        path.write_text("".join(as_json(each) + "\n" for each in notes) + last, errors="replace")
        report_of(read_own([LeftFile(path, path.name, FileKind.NOTES)])[0])
        told = GuardReports(Path(folder))
        told.read(1.0)


METRICS: Any = {
    "schema": "keepstep.metrics/1",
    "at": 1e9,
    "memory": {"total": 10**10, "available": 10**8},
    "swap": {"total": 0, "used": 0},
    "disks": {},
    "ranks": {"0": {"steps": 1, "own": 10**9, "epoch": 1}, "1": {"steps": 1, "own": 10**9}},
}


@target(st.lists(damaged(METRICS), min_size=1, max_size=3), NUMBERS, examples=40)
def test_metrics(damage: list[Any], rise: Any) -> None:
    whole = [json.loads(json.dumps(METRICS)) for _ in range(40)]
    for number, each in enumerate(whole):
        each["at"] += number
        for rank in each["ranks"].values():
            rank["steps"] += 10 * number
            rank["own"] += number * (rise if isinstance(rise, int) else 10**8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_text("".join(as_json(each) + "\n" for each in [*whole, *damage, *whole]), errors="replace")
        report_of(read_metrics([LeftFile(path, path.name, FileKind.METRICS)])[0])


ARRIVED: Any = {
    "schema": "keepstep.arrivals/1",
    "logs": {"rank0.log": {"whole": True, "marks": [[0, 1e9], [5, 1e9 + 1]]}},
}


@target(damaged(ARRIVED))
def test_arrivals(found: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, marks = Path(folder) / "rank0.log", Path(folder) / "arrivals.json"
        log.write_text("a\nb\nc\n")
        marks.write_text(as_json(found), errors="replace")
        seen = [Evidence(fact=next(iter(fact_types().values())), origin=Origin(source="rank0.log", line=2))]  # type: ignore[arg-type]
        with_arrivals(seen, [LeftFile(marks, marks.name, FileKind.ARRIVALS)], [LeftFile(log, log.name, FileKind.LOG)])


ATTEMPTS: Any = [
    {"number": 0, "began": 1.0, "ended": 2.0, "status": 1, "title": "x", "steps": 3},
    {"number": 1, "began": 3.0, "status": None},
]
MANIFEST: Any = {
    "schema": "keepstep.run/1",
    "name": "a",
    "command": ["x"],
    "cwd": "/",
    "began": 1.0,
    "ended": 2.0,
    "ranks": 2,
    "roles": ["worker"],
    "host": "h",
    "user": "0",
    "pid": 1,
    "started": 1.0,
    "version": "0",
    "state": "running",
    "status": 1,
    "attempts": ATTEMPTS,
    "remedies": ["r"],
}


@target(damaged(MANIFEST), examples=80)
def test_manifests(found: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        for name in ("attempt-0", "attempt-1"):
            (run / name).mkdir(parents=True)
        (run / run_folders.MANIFEST).write_text(as_json(found), errors="replace")
        said = run_folders.read_manifest(run)
        assert run_folders.manifest_problem(run) is None or said is None
        assert run_folders.attempt_to_explain(run).is_relative_to(run)
        folders = run_folders.attempts_to_explain(run)
        if said is not None and folders:
            last = max(folders)
            empty = Report(verdict=Verdict.UNKNOWN)
            of_all_attempts(dict.fromkeys(folders, empty), [each for each in said.attempts if each.number <= last])
        for listed in run_folders.runs(Path(folder)):
            _line(listed, 10)
        run_folders.find("last", run_folders.runs(Path(folder)))
        run_folders.prune(Path(folder), least=0, now=1e9)


@target(st.lists(VALUES | damaged({"host": "a", "cause": "b", "at": 1}), max_size=4))
def test_the_memory_of_hosts(lines: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hosts.jsonl"
        path.write_text("".join(as_json(each) + "\n" for each in lines), errors="replace")
        for host, cause in failed_hosts.remembered(path):
            assert isinstance(host, str) and isinstance(cause, str)
        failed_hosts.remember("a", "b", 1.0, path)
        path.write_bytes(b"\xff\xfe" + path.read_bytes())
        failed_hosts.remember("a", "b", 1.0, path)
        assert failed_hosts.remembered(path)


QUARANTINE: Any = {
    "schema": SCHEMA,
    "files": [{"file": "a", "whole_file": False, "records": [3], "ends_at_record": 8, "bad": [], "more": 0}],
}


@target(damaged(QUARANTINE))
def test_quarantine_lists(listed: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quarantine.json"
        path.write_text(as_json(listed), errors="replace")
        with contextlib.suppress(UserError):
            skip = quarantined(path, [("a", 10), ("b", 5)])
            assert skip == sorted(set(skip)) and not set(skip) - set(range(15))


STATE = shard(20, batch=2, rank=0, ranks=2).state(3)


@target(damaged(STATE))
def test_saved_places_in_the_data(state: Any) -> None:
    own = shard(20, batch=2, rank=0, ranks=2)
    with contextlib.suppress(ValueError):
        own.resume(state)
        assert all(0 <= record < 20 for record in own[:50])


def _history() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        writer = HistoryWriter(Path(folder), "a")
        for second in range(3):
            writer.add(1e9 + second, {0: {"step": 1.0, "wait": 0.5}, 1: {"step": 2.0}}, {"a": {"swap": 1.0}})
        return b"".join(path.read_bytes() for path in sorted((Path(folder) / "history").iterdir()))


@target(torn(_history()), keep=[(b"",), (_history(),)])
def test_history(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "attempt-0" / "history"
        place.mkdir(parents=True)
        (place / "a-1s-999999900.tiles").write_bytes(data)
        history = open_history(Path(folder))
        start, end = history.span
        history.grid(start, min(end, start + 1e6), 10)
        for rank in history.ranks[:3]:
            history.last(rank)
            history.series("wait", rank, start, min(end, start + 1e6), 10)
