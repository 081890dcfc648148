# SPDX-License-Identifier: Apache-2.0
"""`why` stays inside the folder it was given: links, pipes, devices, and files that change while it looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from keepstep.base.safe_files import NOT_REGULAR
from keepstep.cli.parser import run
from keepstep.guard.box_writer import Box
from keepstep.model.evidence import CoverageState
from keepstep.signals import box_files
from keepstep.sources.files import inside_given
from keepstep.sources.files.file_search import FoundFiles, find_files
from keepstep.sources.files.left_files import Chunks, FileKind
from keepstep.store import run_folders
from tests.hostile.folders import CRASH, deep, links_out, pipes_and_sockets

CORE = b"\x7fELF\x02\x01\x01" + b"\x00" * 9 + b"\x04\x00" + b"\x00" * 100


def names(found: FoundFiles) -> list[str]:
    return [left.name for left in found.files]


def left_out(found: FoundFiles) -> str:
    return "\n".join(f"{each.what}: {each.why}" for each in found.coverage)


def test_links_that_lead_out_are_listed_and_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    links_out(folder, tmp_path / "outside")
    (folder / "rank0.log").write_text("step 1\n")
    found = find_files([folder])
    assert names(found) == ["rank0.log"]
    told = left_out(found)
    assert "links out of the folder" in told and "--follow" in told
    assert "environ.log" in told
    assert "nowhere.log: No such file" in told
    assert CoverageState.PARTLY in {each.state for each in found.coverage}, "a log that was not read is not healthy"


def test_follow_reads_them_but_never_the_kernels_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    links_out(folder, tmp_path / "outside")
    found = find_files([folder], follow=True)
    assert names(found) == ["file.log"], "the secret by its first name; nothing of /proc, /sys and /dev"
    told = left_out(found)
    assert "kernel folders" in told and "environ.log" in told
    assert "device" in told and "zero.log" in told


def test_links_inside_of_what_was_given_are_followed(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    for folder in (one, other):
        folder.mkdir()
    (other / "rank1.log").write_text("x\n")
    (one / "rank1.log").symlink_to(other / "rank1.log")
    (one / "again").symlink_to(one)
    assert find_files([one]).files == []
    found = find_files([one, other])
    assert len(found.files) == 1
    assert not found.coverage


def test_a_link_that_was_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("x\n")
    (tmp_path / "latest").symlink_to(tmp_path / "logs")
    (tmp_path / "one.log").symlink_to(tmp_path / "logs" / "a.log")
    assert names(find_files([tmp_path / "latest"])) == ["a.log"]
    assert names(find_files([tmp_path / "one.log"])) == ["one.log"]


def test_pipes_and_sockets_in_a_folder_are_never_opened(tmp_path: Path) -> None:
    pipes_and_sockets(tmp_path)
    (tmp_path / "link.log").symlink_to(tmp_path / "rank0.log")
    (tmp_path / "rank1.log").write_text("x\n")
    found = find_files([tmp_path])  # a pipe that is opened waits for ever
    assert names(found) == ["rank1.log"]
    assert "3 pipes, sockets and devices" in left_out(found)


def test_the_kernels_folders_hold_no_logs_even_when_named() -> None:
    found = find_files([Path("/proc/self"), Path("/sys/kernel")])
    assert not found.files
    assert "2 kernel folders" in left_out(found)


def test_a_file_system_of_the_kernel_is_known_wherever_it_is_mounted() -> None:
    device = os.stat("/proc/self/status").st_dev
    assert inside_given.is_kernels("/home/someone/chroot/proc/1/environ", device, ["/home/someone"])
    assert not inside_given.is_kernels("/home/someone/a.log", os.stat("/").st_dev, ["/home/someone"])
    assert inside_given.is_kernels("/dev/shm/a.log", -1, ["/home/someone"])
    assert not inside_given.is_kernels("/dev/shm/logs/a.log", -1, ["/dev/shm/logs"])


@pytest.mark.parametrize("given", ["pipe", "/dev/stdin"])
def test_a_pipe_that_was_named_is_read(tmp_path: Path, given: str) -> None:
    (tmp_path / "a.log").write_text(CRASH)
    command = f"{sys.executable} -m keepstep why --no-kernel-log --json "
    command += "<(cat a.log)" if given == "pipe" else "/dev/stdin < <(cat a.log)"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"]


@pytest.mark.parametrize("ours", [True, False])
def test_links_to_boxes_and_cores_are_followed_if_we_made_them_and_they_are_what_they_say(
    tmp_path: Path, ours: bool
) -> None:
    away, folder = tmp_path / "away", tmp_path / "run"
    for each in (away, folder / "guard", folder / "cores"):
        each.mkdir(parents=True)
    Box(away / "memory", {"rank": 0, "pid": 1}, capacity=8)
    (away / "secret").write_text("password=hunter2\n")
    (away / "core.1").write_bytes(CORE)
    (folder / "guard" / "rank0-1-0.box").symlink_to(away / "memory")
    (folder / "guard" / "rank1-1-0.box").symlink_to(away / "secret")
    (folder / "cores" / "rank0.core").symlink_to(away / "core.1")
    (folder / "cores" / "rank1.core").symlink_to(away / "secret")
    (folder / "core.1").symlink_to(away / "core.1")
    found = find_files([folder], own_links=ours)
    expected = {("guard/rank0-1-0.box", FileKind.BLACK_BOX), ("cores/rank0.core", FileKind.CORE)}
    assert {(left.name, left.kind) for left in found.files} == (expected if ours else set())
    assert f"{3 if ours else 5} links out of the folder" in left_out(found)
    assert CoverageState.PARTLY in {each.state for each in found.coverage}


def test_a_link_to_a_box_in_our_own_memory_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_files, "MEMORY", tmp_path / "memory")
    box_files.own_memory().mkdir(parents=True)
    Box(box_files.own_memory() / "1-2.box", {"rank": 0, "pid": 1}, capacity=8)
    (box_files.own_memory() / "private.log").write_text("password=hunter2\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0-1-0.box").symlink_to(box_files.own_memory() / "1-2.box")
    (tmp_path / "run" / "rank1-1-0.box").symlink_to(box_files.own_memory() / "private.log")
    assert names(find_files([tmp_path / "run"])) == ["rank0-1-0.box"]


def test_why_shows_nothing_of_a_core_or_box_that_a_stranger_linked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away, folder = tmp_path / "away", tmp_path / "given"
    away.mkdir()
    (folder / "cores").mkdir(parents=True)
    Box(away / "memory", {"rank": 7, "pid": 1, "host": "private-host"}, capacity=8)
    (folder / "rank0-1-0.box").symlink_to(away / "memory")
    (away / "core.1").write_bytes(CORE)
    (folder / "cores" / "core.1").symlink_to(away / "core.1")
    (folder / "rank0.log").write_text("step 1\ntraining finished\n")
    bundle = tmp_path / "all.tar.gz"
    assert run(["why", "--no-kernel-log", "--bundle", str(bundle), str(folder)]) == 3
    told = capsys.readouterr().out
    assert "private-host" not in told and "2 links out of the folder" in told
    with tarfile.open(bundle) as archive:
        manifest = archive.extractfile("keepstep-bundle/manifest.json")
        assert manifest is not None and [each["name"] for each in json.load(manifest)["sources"]] == ["rank0.log"]
    run(["why", "--no-kernel-log", "--follow", str(folder)])
    assert "2 links out of the folder" not in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_someone_elses_core_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "run" / "cores").mkdir(parents=True)
    (tmp_path / "core.1").write_bytes(CORE)
    os.chown(tmp_path / "core.1", 4321, 4321)
    (tmp_path / "run" / "cores" / "rank0.core").symlink_to(tmp_path / "core.1")
    assert not find_files([tmp_path / "run"]).files


def test_what_takes_a_files_place_after_it_was_found_is_not_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "logs", tmp_path / "secret.log"
    folder.mkdir()
    outside.write_text("password=hunter2-outside\n")
    (folder / "a.log").write_text("step 1\n")
    (left,) = find_files([folder]).files
    (folder / "a.log").unlink()
    (folder / "a.log").symlink_to(outside)
    chunks = Chunks(left)
    assert not list(chunks)
    assert chunks.problem is not None and "replaced it" in chunks.problem
    (folder / "a.log").unlink()
    os.mkfifo(folder / "a.log")
    chunks = Chunks(left)
    assert not list(chunks)
    assert chunks.problem == NOT_REGULAR


def test_a_folder_that_becomes_a_link_while_we_look_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = tmp_path / "logs", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.log").write_text("password=hunter2-outside\n")
    real_open, swapped = os.open, []

    def swap_first(path: object, *rest: object, **more: object) -> int:
        if str(path).endswith("/sub") and not swapped:
            swapped.append(path)
            (folder / "sub").rename(tmp_path / "was")
            (folder / "sub").symlink_to(outside)
        return real_open(path, *rest, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", swap_first)
    found = find_files([folder])
    assert swapped and not found.files
    assert "1 link out of the folder" in left_out(found)


def test_a_bundle_and_a_page_hold_nothing_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    links_out(folder, tmp_path / "outside")
    pipes_and_sockets(folder)
    (folder / "rank1.log").write_text(CRASH)
    bundle, page = tmp_path / "all.tar.gz", tmp_path / "page.html"
    assert run(["why", "--no-kernel-log", "--bundle", str(bundle), "--html", str(page), str(folder)]) == 1
    assert "not followed" in capsys.readouterr().out
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            assert member.isreg()
            stream = archive.extractfile(member)
            assert stream is not None and b"outside\n" not in stream.read()
    assert "hunter2" not in page.read_text()


def test_folders_may_be_as_deep_as_they_like(tmp_path: Path) -> None:
    folder = deep(tmp_path / "deep")
    try:
        found = find_files([folder])
        assert [Path(name).name for name in names(found)] == ["rank0.log"]
        listed = run_folders.Listed(folder, run_folders.RunManifest(name="x", command=[], cwd="/", began=0.0, ranks=1))
        assert listed.size_bytes == len(CRASH)
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)
