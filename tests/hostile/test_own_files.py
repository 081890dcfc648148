# SPDX-License-Identifier: Apache-2.0
"""What keepstep writes is for its user alone, and never written, copied or removed through another user's link."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from keepstep.base import safe_files
from keepstep.cli.parser import run
from keepstep.guard import companion
from keepstep.guard.agree import arrivals, run_folder
from keepstep.guard.box_writer import Box, in_memory
from keepstep.guard.own_rank import Identity
from keepstep.guard.record.notes import Notes
from keepstep.model.facts.base import Fact
from keepstep.signals import box_files
from keepstep.signals.box_files import keep
from keepstep.store import evidence_file, failed_hosts
from keepstep.store.user_cache import Kept
from keepstep.supervise.start import reaper
from keepstep.supervise.watch.vitals import Boxes
from tests.hostile.folders import CRASH
from tests.supervise.starting import Running

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for boxes that is not the host's."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(box_files, "MEMORY", tmp_path / "memory")
    return tmp_path / "memory"


@pytest.fixture(autouse=True)
def for_all() -> object:
    """With the most open umask there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in found if path.stat().st_mode & 0o077]


def victim(folder: Path) -> Path:
    path = folder / "victim"
    path.write_bytes(b"precious\n")
    path.chmod(0o640)
    return path


def test_all_that_a_run_leaves_is_for_its_user_alone(tmp_path: Path) -> None:
    script = "import os, time\nfor step in range(30):\n    print('step', step, flush=True)\n    time.sleep(0.02)\n"
    script += "if os.environ['RANK'] == '1': raise KeyError('x')\ntime.sleep(60)\n"
    job = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert job.finish() == 1
    assert (job.run / "attempt-0" / "metrics.jsonl").exists() and (job.run / "attempt-0" / "arrivals.json").exists()
    assert open_to_others(tmp_path / ".keepstep") == []


def test_a_guard_without_a_supervisor_writes_for_its_user_alone(tmp_path: Path) -> None:
    code = "import keepstep, sys\nkeepstep.guard.attach()\nraise KeyError('x')\n"
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert "KeyError" in done.stderr
    (folder,) = [path for path in (tmp_path / ".keepstep" / "guard").iterdir() if path.is_dir()]
    assert any(folder.glob("*.box")) and any(folder.glob("*.notes.jsonl"))
    assert open_to_others(tmp_path / ".keepstep") == []


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_a_page_follows_the_umask_and_nobody_else_can_change_it(tmp_path: Path, umask: int, mode: int) -> None:
    (tmp_path / "rank0.log").write_text(CRASH)
    os.umask(umask)
    run(["why", str(tmp_path / "rank0.log"), "--html", str(tmp_path / "page.html"), "--no-kernel-log"])
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == mode


def test_folders_are_private_from_the_first_that_was_missing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    safe_files.make_private(tmp_path / "there" / "a" / "b" / "c")
    assert open_to_others(tmp_path / "there" / "a") == []
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o777, "what exists stays as it is"
    with pytest.raises(FileExistsError):
        safe_files.make_private(tmp_path / "there", exist_ok=False)
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            safe_files.make_private(path)


def test_the_cache_and_the_state_are_for_their_user_alone(tmp_path: Path) -> None:
    Kept(tmp_path / "cache" / "keepstep").put("name", "key", b"body")
    failed_hosts.remember("node-1", "cause", 1.0, tmp_path / "state" / "keepstep" / "hosts.jsonl")
    for folder in ("cache", "state"):
        assert any(path.is_file() for path in (tmp_path / folder).rglob("*"))
        assert open_to_others(tmp_path / folder) == []


def test_the_copy_of_a_box_is_as_private_as_the_box(tmp_path: Path, memory: Path) -> None:
    path = in_memory("1-1.box")
    assert path is not None
    Box(path, {"rank": 0, "pid": 1}, capacity=8)
    link = tmp_path / "rank0-1-0.box"
    link.symlink_to(path)
    keep(link)
    assert not link.is_symlink() and link.stat().st_mode & 0o777 == 0o600
    assert not path.exists(), "the memory is free again"


@pytest.mark.parametrize("content", ["box", "something else"])
def test_what_a_link_leads_to_outside_of_our_memory_is_never_removed(
    tmp_path: Path, memory: Path, content: str
) -> None:
    target = victim(tmp_path)
    if content == "box":
        target.unlink()
        Box(target, {"rank": 0, "pid": 1}, capacity=8)
    before = target.read_bytes()
    for name in ("rank0-1-0.box", "rank1-1-0.box"):
        (tmp_path / name).symlink_to(target)
    keep(tmp_path / "rank0-1-0.box")
    reaper.tidy([str(tmp_path)], [])
    assert target.read_bytes() == before
    assert (tmp_path / "rank0-1-0.box").is_symlink() == (content != "box"), "a copy is taken of a box only"


def test_a_name_in_our_memory_that_means_another_file_by_now_stays(tmp_path: Path, memory: Path) -> None:
    path = in_memory("1-1.box")
    assert path is not None
    Box(path, {"rank": 0, "pid": 1}, capacity=8)
    kept = os.stat(path)
    path.rename(tmp_path / "moved")
    path.write_bytes(b"another")
    box_files._free(path, kept)
    assert path.exists()


@ROOT_ONLY
def test_a_box_of_another_user_is_not_opened(tmp_path: Path) -> None:
    Box(tmp_path / "theirs", {"rank": 0, "pid": os.getpid(), "host": "x"}, capacity=8)
    os.chown(tmp_path / "theirs", 4321, 4321)
    (tmp_path / "rank0-1-0.box").symlink_to(tmp_path / "theirs")
    with pytest.raises(PermissionError):
        box_files.open_box(tmp_path / "rank0-1-0.box")


def test_a_pipe_called_a_box_does_not_stop_the_watching(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank0-1-0.box")
    boxes = Boxes(tmp_path)
    boxes.refresh(now=True)
    assert not boxes.open


def test_the_companion_does_not_empty_what_a_link_leads_to(tmp_path: Path) -> None:
    target = victim(tmp_path)
    (tmp_path / "guard").mkdir()
    companion.pid_file(tmp_path / "guard").symlink_to(target)
    with pytest.raises(OSError):
        companion.accompany(tmp_path / "guard")
    assert target.read_bytes() == b"precious\n"


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = victim(tmp_path)
    (tmp_path / "link").symlink_to(target)
    notes = Notes(tmp_path / "link")
    notes.add("GuardPart", {"part": "x", "why": "y"}, rank=0, quote="")
    writes = (
        notes.flush,
        lambda: safe_files.append(tmp_path / "link", b"x"),
        lambda: evidence_file.append(tmp_path / "link", [_evidence()]),
        lambda: safe_files.open_private(tmp_path / "link", os.O_RDWR),
    )
    for write in writes:
        with pytest.raises(OSError):
            write()
    monkeypatch.chdir(tmp_path)
    root = tmp_path / ".keepstep" / "guard"
    root.mkdir(parents=True)
    (root / ".turn").symlink_to(tmp_path / "made-by-a-link")
    with pytest.raises(OSError):
        run_folder.claim(Identity(rank=0, world=1, attempt=0, job="alone"), {})
    assert not (tmp_path / "made-by-a-link").exists()
    safe_files.write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").read_bytes() == b"new" and not (tmp_path / "link").is_symlink()
    assert target.read_bytes() == b"precious\n"


def _evidence() -> object:
    from keepstep.model.evidence import Evidence, Origin
    from keepstep.model.facts.platform import SignatureMatched

    fact: Fact = SignatureMatched(name="x")
    return Evidence(fact=fact, origin=Origin(source="x"))


def test_a_folder_with_a_name_that_all_know_is_ours_or_not_used(tmp_path: Path, memory: Path) -> None:
    folder = memory / f"keepstep-{os.geteuid()}"
    folder.mkdir(mode=0o777)
    assert in_memory("1-1.box") is not None
    assert folder.stat().st_mode & 0o777 == 0o700, "ours, but open to all: closed"
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert in_memory("1-1.box") is None
    folder.unlink()
    if os.geteuid() == 0:
        folder.mkdir()
        os.chown(folder, 4321, 4321)
        assert in_memory("1-1.box") is None


def test_those_who_arrive_meet_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals.os, "access", lambda *_: False)
    monkeypatch.setattr(arrivals.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = arrivals._folder()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.symlink_to("/")
    with pytest.raises(PermissionError):
        arrivals._folder()


def test_a_bundle_and_what_is_in_it_are_for_their_user_alone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASH)
    assert run(["why", "--no-kernel-log", "--bundle", str(tmp_path / "all.tar.gz"), str(tmp_path / "a.log")]) == 1
    assert (tmp_path / "all.tar.gz").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "all.tar.gz") as archive:
        assert {member.mode for member in archive.getmembers()} == {0o600}


def test_a_page_is_not_written_through_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASH)
    (tmp_path / "page.html").symlink_to(tmp_path / "made-by-a-link")
    assert run(["why", "--no-kernel-log", "--html", str(tmp_path / "page.html"), str(tmp_path / "a.log")]) == 2
    assert not (tmp_path / "made-by-a-link").exists()
