# SPDX-License-Identifier: Apache-2.0
"""Whatever a limit cuts off or nobody can read is listed, and never counts as healthy. Holes and time are bounded."""

from __future__ import annotations

import json
import os
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from keepstep.base.time_budget import TimeBudget
from keepstep.cli.parser import run
from keepstep.render import bundle as bundles
from keepstep.sources.files import file_search, left_files
from keepstep.sources.files.file_search import find_files
from keepstep.sources.files.left_files import Chunks
from tests.hostile.folders import CRASH

WELL = "step 1\nstep 2\ntraining finished\n"
NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    status = run(["why", "--no-kernel-log", "--json", *map(str, words)])
    return status, json.loads(capsys.readouterr().out)


def logs(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(WELL)
    return folder


def test_the_control_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(capsys, logs(tmp_path / "logs", "rank0.log", "rank1.log"))[0] == 0


def test_more_files_than_are_read_are_never_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "MOST_FILES", 20)
    folder = logs(tmp_path / "logs", *(f"rank{number}.log" for number in range(30)))
    (folder / "rank29.log").write_text(CRASH)
    status, told = asked(capsys, folder)
    assert status == 3, "the log with the crash is not among those that were read"
    assert any(each["what"] == "10 of 30 files" for each in told["coverage"])


def test_logs_of_ranks_are_read_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "MOST_FILES", 5)
    folder = logs(tmp_path / "logs", *(f"a{letter}.txt" for letter in "bcdefghijkl"), "notes.log", "rank0.log")
    (folder / "rank1.log").write_text(CRASH)
    found = find_files([folder])
    assert {"notes.log", "rank0.log", "rank1.log"} <= {left.name for left in found.files} and len(found.files) == 5
    assert asked(capsys, folder)[0] == 1


@pytest.mark.long
def test_a_hundred_thousand_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = logs(tmp_path / "logs", *(f"rank{number}.log" for number in range(100_000)))
    (folder / "zz-rank100000.log").write_text(CRASH)
    assert asked(capsys, folder)[0] == 3


def test_a_named_log_that_is_not_there_is_never_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = logs(tmp_path / "logs", "rank0.log")
    assert asked(capsys, folder / "rank0.log", folder / "rank1.log")[0] == 3


@NOT_ROOT
@pytest.mark.parametrize("what", ["rank1.log", "node1"])
def test_what_cannot_be_read_is_never_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    folder = logs(tmp_path / "logs", "rank0.log")
    (folder / what).mkdir(mode=0o000) if what == "node1" else (folder / what).touch(mode=0o000)
    assert asked(capsys, folder)[0] == 3


def test_an_error_while_opening_is_never_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, for root, whom no mode stops."""
    folder = logs(tmp_path / "logs", "rank0.log", "rank1.log")
    real = file_search.open_regular

    def refuse(path: Path, **options: Any) -> Any:
        if Path(path).name == "rank1.log":
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(file_search, "open_regular", refuse)
    status, told = asked(capsys, folder)
    assert status == 3
    assert {"what": "rank1.log", "state": "partly checked", "why": "Permission denied"} in told["coverage"]


@pytest.mark.parametrize("name", ["logs.zip", "rank1.tar"])
def test_an_archive_of_logs_is_never_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    folder = logs(tmp_path / "logs", "rank0.log")
    (tmp_path / "rank1.log").write_text(CRASH)
    if name.endswith(".zip"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.write(tmp_path / "rank1.log", "rank1.log")
    else:
        with tarfile.open(folder / name, "w") as tar:
            tar.add(tmp_path / "rank1.log", "rank1.log")
    status, told = asked(capsys, folder)
    assert status == 3 and any(each["what"] == f"1 archive ({name})" for each in told["coverage"])


def test_an_archive_of_data_is_listed_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = logs(tmp_path / "logs", "rank0.log")
    with tarfile.open(folder / "shard-00001.tar", "w") as tar:
        tar.add(folder / "rank0.log", "sample.txt")
    status, told = asked(capsys, folder)
    assert status == 0 and any("shard-00001.tar" in each["what"] for each in told["coverage"])


def test_a_pipe_that_is_cut_off_is_never_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr(file_search, "MOST_PIPED", len(WELL))
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(WELL + CRASH))
    writer.start()
    status, told = asked(capsys, tmp_path / "pipe")
    writer.join()
    assert status == 3 and any("of a pipe" in each["why"] for each in told["coverage"])


def test_when_the_time_is_over_the_rest_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = logs(tmp_path / "logs", "rank0.log", "rank1.log")
    status, told = asked(capsys, folder, "--seconds", "-1")
    assert status == 3
    assert any(each["what"].startswith("2 of 2 logs") and "--seconds" in each["why"] for each in told["coverage"])


def test_a_bundle_lists_what_it_has_no_time_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = logs(tmp_path / "logs", "rank0.log", "rank1.log"), tmp_path / "b.tar.gz"
    run(["why", "--no-kernel-log", "--seconds", "-1", "--bundle", str(out), str(folder)])
    assert "its report lists the rest" in capsys.readouterr().err
    with tarfile.open(out) as archive:
        member = archive.extractfile("keepstep-bundle/report.json")
        assert member is not None
        told = json.load(member)["coverage"]
        assert not [name for name in archive.getnames() if "/logs/" in name]
    assert any(each["what"].startswith("2 logs of this bundle") for each in told)


def test_a_bundle_redacts_only_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took over 150 s for what `why` read in one: every long line of a log was redacted, and dropped afterwards."""
    (tmp_path / "rank0.log").write_text(("step 1 " + "words and more words " * 500 + "\n") * 2000 + CRASH)
    redacted = 0
    real = bundles.redact

    def counted(text: str) -> str:
        nonlocal redacted
        redacted += len(text)
        return real(text)

    monkeypatch.setattr(bundles, "redact", counted)
    monkeypatch.setattr("keepstep.render.excerpt.redact", counted)
    began = time.process_time()
    run(["why", "--no-kernel-log", "--bundle", str(tmp_path / "b.tar.gz"), str(tmp_path / "rank0.log")])
    assert redacted < 8 << 20, "of 21 MB"
    assert time.process_time() - began < 20


def sparse(path: Path, *, hole: int, before: str = "", after: str = "") -> None:
    with path.open("wb") as stream:
        stream.write(before.encode())
        stream.seek(hole, os.SEEK_CUR)
        stream.write(after.encode())
        stream.truncate()


@pytest.mark.parametrize("terabytes", [0.032, 1])
@pytest.mark.parametrize(("before", "after"), [("step 1\n", CRASH), ("", "step 1\n" + CRASH), (CRASH, "")])
def test_holes_are_skipped_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], terabytes: float, before: str, after: str
) -> None:
    try:
        sparse(tmp_path / "rank0.log", hole=int(terabytes * 1e12), before=before, after=after)
        if not after:
            os.truncate(tmp_path / "rank0.log", int(terabytes * 1e12))
    except OSError:
        pytest.skip("no file of this size here")
    if file_search.stored((tmp_path / "rank0.log").stat()) > 1 << 20:
        pytest.skip("this file system has no holes")
    began = time.process_time()
    status, told = asked(capsys, tmp_path)
    assert status == 1
    assert told["findings"], "what stands around the hole is read"
    assert any("of holes in rank0.log, skipped" in each["what"] for each in told["coverage"])
    assert time.process_time() - began < 4


def test_lines_keep_their_numbers_behind_a_hole(tmp_path: Path) -> None:
    sparse(tmp_path / "rank0.log", hole=1 << 20, before="one\ntwo\n", after="three\n")
    (left,) = find_files([tmp_path]).files
    chunks = Chunks(left)
    data = b"".join(chunks)
    assert data.replace(b"\0", b"") == b"one\ntwo\nthree\n"
    if left.stored < left.size:
        assert chunks.holes > 900_000 and len(data) < 100_000


def test_what_a_file_only_seems_to_hold_allows_no_time() -> None:
    budget = TimeBudget(0)
    budget.allow_for(1_000_000)
    assert not budget.is_out and budget.until - time.monotonic() <= 1


def test_standard_input_that_is_cut_off_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(left_files, "MOST_STANDARD_INPUT", 5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"step 1\nstep 2\n")))
    left = left_files.read_standard_input()
    chunks = Chunks(left)
    assert b"".join(chunks) == b"step " and chunks.stopped is not None
