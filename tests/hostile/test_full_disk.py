# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up while a run is recorded: no report contradicts itself, and what is missing is never healthy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.base import safe_files
from keepstep.sources.files.file_search import find_files
from keepstep.store import run_folders
from keepstep.store.reserved_space import NAME, PIECE, Reserve
from tests.supervise.starting import Running, why

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")

TALKS = """
import os, sys, time
for step in range(60):
    print("step", step, "x" * 4000, flush=True)
    time.sleep(0.005)
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    with pytest.raises(OSError), (disk / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 512)


def test_a_failure_is_explained_although_the_disk_is_full(tmp_path: Path, small: Path) -> None:
    script = TALKS + "if os.environ['RANK'] == '1': raise KeyError('learning_rate')\ntime.sleep(60)\n"
    run = Running(tmp_path, "-q", "-n", "2", "--max-attempts", "1", "--run-dir", str(small / "runs"), script=script)
    assert run.finish() == 1
    assert run.err.count("the disk is full") == 1 and "continues" not in run.err
    assert "healthy" not in run.err
    assert "KeyError: 'learning_rate'" in run.err and "the disk was full" in run.err
    (folder,) = (small / "runs").glob("2*")
    later = why(folder)
    assert later in run.err, "`keepstep why RUN` says what the run said"
    (listed,) = run_folders.runs(small / "runs")
    assert (listed.state, listed.manifest.status) == ("failed", 1), "and so does `keepstep runs`"
    assert not (folder / NAME).exists()


def test_a_run_that_ended_well_on_a_full_disk_is_not_called_healthy(tmp_path: Path, small: Path) -> None:
    run = Running(tmp_path, "-q", "-n", "2", "--run-dir", str(small / "runs"), script=TALKS)
    assert run.finish() == 0
    assert run.err.count("the disk is full") == 1
    (folder,) = (small / "runs").glob("2*")
    later = why(folder)
    assert later.startswith("unknown  nothing wrong was found, but not everything could be checked")
    (listed,) = run_folders.runs(small / "runs")
    assert listed.state == "finished"


def test_what_matters_finds_room_when_nothing_else_does(small: Path) -> None:
    reserve = Reserve(small)
    fill(small)
    with pytest.raises(OSError, match="No space"):
        safe_files.append(small / "a", b"x" * 100)
    reserve.used_for(lambda: safe_files.append(small / "a", b"x" * 100))
    assert (small / "a").read_bytes() == b"x" * 100
    with pytest.raises(OSError, match="No space"):
        reserve.used_for(lambda: safe_files.append(small / "a", b"y" * (10 * PIECE)))
    assert (small / "a").read_bytes() == b"x" * 100, "all of it or nothing"
    reserve.close()
    assert not (small / NAME).exists()


def test_the_manifest_is_written_even_into_a_disk_without_any_room(small: Path) -> None:
    folder = run_folders.create(small / "runs", ["x"], name=None, ranks=1, version="1")
    assert folder.save()
    folder.reserve.close()
    fill(small)
    folder.manifest.state = "failed"
    assert folder.save()
    assert folder.full
    (listed,) = run_folders.runs(small / "runs")
    assert listed.state == "failed"
    folder.manifest.command = ["y" * 100_000]
    assert not folder.save()
    (listed,) = run_folders.runs(small / "runs")
    assert listed.manifest.command == ["x"], "what does not fit leaves the old one whole"


def test_empty_files_of_our_own_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "exits.jsonl").touch()
    (tmp_path / "rank0.log").touch()
    assert [left.name for left in find_files([tmp_path]).files] == ["rank0.log"]
