# SPDX-License-Identifier: Apache-2.0
"""Black boxes that a killed process left in memory: real guards in processes that are really killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keepstep.signals import blackbox, box_files
from keepstep.store import boxes_in_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="boxes are in /dev/shm")

GUARDED = """\
import sys, time
from pathlib import Path
from keepstep.signals import box_files
box_files.MEMORY = Path(sys.argv[1])
import keepstep
keepstep.guard.attach()
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for boxes that is not the host's."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(box_files, "MEMORY", tmp_path / "memory")
    return tmp_path / "memory"


@contextmanager
def guarded(folder: Path, memory: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"}
    command = [sys.executable, "-c", GUARDED, str(memory)]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def killed(folder: Path, memory: Path) -> Path:
    """The link to the box of a process that was killed."""
    with guarded(folder, memory) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (link,) = folder.rglob("*.box")
    assert link.is_symlink() and link.exists()
    return link


def left_in(memory: Path) -> list[Path]:
    return list(memory.rglob("*.box"))


def test_the_box_of_a_killed_process_becomes_a_file_of_its_folder(tmp_path: Path, memory: Path) -> None:
    link = killed(tmp_path / "run", memory)
    assert boxes_in_memory.sweep() == 1
    assert left_in(memory) == [] and not link.is_symlink()
    assert blackbox.read(link.read_bytes()).records, "what it saw is still there"


def test_a_box_that_no_folder_wants_any_more_is_removed(tmp_path: Path, memory: Path) -> None:
    shutil.rmtree(killed(tmp_path / "run", memory).parents[3])
    assert boxes_in_memory.sweep() == 1 and left_in(memory) == []


def test_the_box_of_a_living_process_stays_whatever_became_of_its_folder(tmp_path: Path, memory: Path) -> None:
    with guarded(tmp_path / "run", memory):
        shutil.rmtree(tmp_path / "run")
        assert boxes_in_memory.sweep() == 0 and len(left_in(memory)) == 1


@pytest.mark.parametrize(
    "differs", [{"host": "another"}, {"pid_space": "pid:[1]"}, {"link_on": "1"}, {"link": None}], ids=lambda it: str(it)
)
def test_a_box_that_may_belong_to_somebody_else_stays(
    tmp_path: Path, memory: Path, differs: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(killed(tmp_path / "run", memory).parents[3])
    known = blackbox.identity
    monkeypatch.setattr(blackbox, "identity", lambda data: {**known(data), **differs})
    assert boxes_in_memory.sweep() == 0 and len(left_in(memory)) == 1


def test_the_box_of_another_user_stays(tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(tmp_path / "run", memory)
    folder = box_files.own_memory()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(boxes_in_memory, "own_memory", lambda: folder)
    assert boxes_in_memory.sweep() == 0 and len(left_in(memory)) == 1
