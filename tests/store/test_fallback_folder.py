"""A run folder that cannot be written any more goes on in another place, and is found from the old one."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.store import fallback_folder, run_folders
from keepstep_lab import hosts as lab

needs_root = pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing()))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_folders.RunFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    made = run_folders.create(tmp_path / "disk" / "runs", ["python", "train.py"], name=None, ranks=2, version="1")
    made.attempt(0)
    made.save()
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "disk", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_folder_that_can_be_written_stays(run: run_folders.RunFolder):
    before = run.path
    assert fallback_folder.move(run, 0) is None
    assert run.path == before and run.manifest.moved_from == ""
    assert [each.name for each in (before / "attempt-0").iterdir()] == ["guard"]


def test_a_folder_that_was_removed_is_made_again_in_its_place(run: run_folders.RunFolder):
    before = run.path
    shutil.rmtree(before.parents[1])
    moved = fallback_folder.move(run, 0)
    assert moved is not None and moved.gone and moved.new == before
    assert moved.words == f"the run folder {before} was removed: it is made again; what was in it before is lost"
    assert run_folders.read_manifest(before) is not None and (before / "attempt-0").is_dir()
    assert fallback_folder.of(before) is None
    assert [each.path for each in fallback_folder.all_runs(before.parent)] == [before]


@needs_root
def test_a_folder_on_a_read_only_disk_goes_on_in_the_users_state_folder(disk: Path, run: run_folders.RunFolder):
    before = run.path
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    moved = fallback_folder.move(run, 0)
    assert moved is not None and not moved.gone and not moved.full
    assert moved.new == disk.parent / "state" / "keepstep" / "runs" / before.name == run.path
    assert "cannot be written (Read-only file system): the recording goes on in" in moved.words
    assert (moved.fact.error, moved.fact.path) == ("Read-only file system", str(before))
    assert moved.new.stat().st_mode & 0o077 == 0
    assert fallback_folder.of(before) == moved.new
    (listed,) = fallback_folder.all_runs(before.parent)
    assert listed.path == moved.new
    assert fallback_folder.move(run, 0) is None, "it has a place now"


@needs_root
def test_a_full_disk_is_left_once_the_attempt_failed_but_not_before(disk: Path, run: run_folders.RunFolder):
    (disk / "filled").write_bytes(b"\0" * (2 << 20))
    (disk / "more").write_bytes(b"\0" * (1 << 20))
    assert fallback_folder.move(run, 0, though_full=False) is None
    moved = fallback_folder.move(run, 0)
    assert moved is not None and moved.full
    assert "has no room left" in moved.words


@needs_root
def test_a_disk_that_was_unmounted_is_not_taken_for_a_folder_that_was_removed(disk: Path, run: run_folders.RunFolder):
    before = run.path
    subprocess.run(["umount", "-l", disk], check=True)
    moved = fallback_folder.move(run, 0)
    subprocess.run(["mount", "-t", "tmpfs", "disk", disk], check=True)  # for the fixture
    assert moved is not None and moved.gone
    assert moved.new != before
    assert f"the recording goes on in {moved.new}" in moved.words


def test_where_no_place_can_be_written_the_run_goes_on_as_it_is(
    run: run_folders.RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = run.path
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    run.device = -1
    shutil.rmtree(before.parents[1])
    assert fallback_folder.move(run, 0) is None
    assert run.path == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("how", ["theirs", "a link"])
def test_a_run_that_another_user_left_among_the_temporary_files_is_not_listed(
    run: run_folders.RunFolder, tmp_path: Path, how: str
):
    """The name is known beforehand, so anybody can take it, and say in a manifest that our run has moved there."""
    taken = tmp_path / "tmp" / f"keepstep-{os.getuid()}"
    theirs = taken if how == "theirs" else tmp_path / "elsewhere"
    forged = theirs / "runs" / run.path.name
    forged.mkdir(parents=True)
    if how == "a link":
        taken.parent.mkdir()
        taken.symlink_to(theirs)
    said = json.loads((run.path / "manifest.json").read_text())
    (forged / "manifest.json").write_text(json.dumps({**said, "moved_from": str(run.path)}))
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, 4321, 4321)
    assert fallback_folder.of(run.path) is None
    assert [each.path for each in fallback_folder.all_runs(run.path.parent)] == [run.path]
    assert fallback_folder._made(taken / "runs", "x", 0) is None
