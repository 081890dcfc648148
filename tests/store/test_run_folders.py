# SPDX-License-Identifier: Apache-2.0
"""Run folders: made, listed, found, pruned, and read whatever is in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from keepstep.store import run_folders


def make(root: Path, name: str, *, state: str = "finished", began: float = 1e9, size: int = 0) -> Path:
    folder = run_folders.create(root, ["python", f"{name}.py"], name=None, ranks=2, version="1")
    folder.manifest.began, folder.manifest.ended = began, began + 10
    folder.manifest.state = state
    folder.save()
    if size:
        (folder.path / "blob").write_bytes(b"x" * size)
    return folder.path


def test_a_run_is_named_by_time_and_script(tmp_path: Path) -> None:
    folder = run_folders.create(tmp_path, ["python", "-u", "a/train.py", "--x"], name=None, ranks=4, version="1")
    assert folder.path.name.endswith("Z-train") and folder.path.is_dir()
    again = run_folders.create(tmp_path, ["python", "train.py"], name=None, ranks=4, version="1")
    assert again.path != folder.path
    assert run_folders.create(
        tmp_path, ["torchrun", "-m", "pkg"], name="my run!", ranks=1, version="1"
    ).path.name.endswith("-my-run")


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    folder = run_folders.create(
        tmp_path, ["python", "train.py", "--api-key=sk-abcdefghijklmnopqrstuvwx123456"], name=None, ranks=1, version="1"
    )
    folder.save()
    assert "abcdefghijklmnop" not in (folder.path / "manifest.json").read_text()


def test_a_running_run_whose_supervisor_is_gone_was_killed(tmp_path: Path) -> None:
    folder = run_folders.create(tmp_path, ["x"], name=None, ranks=1, version="1")
    folder.save()
    assert run_folders.runs(tmp_path)[0].state == "running"
    folder.manifest.started -= 100
    folder.save()
    assert run_folders.runs(tmp_path)[0].state == "killed"
    folder.manifest.pid = 2**22 + 1
    folder.save()
    assert run_folders.runs(tmp_path)[0].state == "killed"


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "good")
    for n, text in enumerate(
        (
            "",
            "{",
            "[]",
            '{"schema": "other"}',
            '{"schema": "keepstep.run/1"}',
            '{"schema": "keepstep.run/1", "name": 3, "attempts": 7}',
        )
    ):
        (tmp_path / f"bad{n}").mkdir()
        (tmp_path / f"bad{n}" / "manifest.json").write_text(text)
    (tmp_path / "file").write_text("x")
    assert len(run_folders.runs(tmp_path)) == 1
    assert run_folders.runs(tmp_path / "nowhere") == []


def test_fields_of_later_versions_do_not_hurt(tmp_path: Path) -> None:
    path = make(tmp_path, "a")
    said = json.loads((path / "manifest.json").read_text())
    said["news"], said["attempts"] = 1, [{"number": 0, "began": 1.0, "more": 2}]
    (path / "manifest.json").write_text(json.dumps(said))
    assert run_folders.runs(tmp_path)[0].manifest.attempts[0].number == 0


def test_the_attempt_that_a_run_ended_with_is_explained(tmp_path: Path) -> None:
    folder = run_folders.create(tmp_path, ["x"], name=None, ranks=1, version="1")
    for n in range(3):
        folder.attempt(n)
        folder.manifest.attempts.append(run_folders.AttemptSaid(number=n, began=1.0))
    folder.save()
    assert run_folders.attempt_to_explain(folder.path) == folder.path / "attempt-2"
    assert run_folders.attempt_to_explain(tmp_path) == tmp_path


def test_runs_are_found_by_name(tmp_path: Path) -> None:
    first, last = make(tmp_path, "alpha", began=1e9), make(tmp_path, "beta", began=2e9)
    assert run_folders.find("last", run_folders.runs(tmp_path)) == last
    assert run_folders.find("alpha", run_folders.runs(tmp_path)) == first
    assert run_folders.find(last.name, run_folders.runs(tmp_path)) == last
    assert run_folders.find("nothing", run_folders.runs(tmp_path)) is None
    assert run_folders.find("a", run_folders.runs(tmp_path)) is None  # both have one


def test_old_and_large_runs_are_pruned_but_not_the_newest_nor_running_ones(tmp_path: Path) -> None:
    old = make(tmp_path, "old", began=1e9)
    running = run_folders.create(tmp_path, ["running.py"], name=None, ranks=1, version="1")
    running.manifest.began = 1e9 + 1
    running.save()
    large = make(tmp_path, "large", began=2e9, size=5000)
    new = [make(tmp_path, f"new{n}", began=2e9 + 10 + n, size=100) for n in range(3)]
    removed = run_folders.prune(tmp_path, most_bytes=4000, most_s=86400.0, least=3, now=2e9 + 100)
    assert removed == [old, large]
    assert running.path.exists() and all(path.exists() for path in new)
    assert run_folders.prune(tmp_path, most_bytes=0, most_s=0.0, least=3, now=3e9) == []


def test_a_disk_that_is_full_is_told_and_never_raises(tmp_path: Path) -> None:
    folder = run_folders.create(tmp_path, ["x"], name=None, ranks=1, version="1")
    shutil.rmtree(folder.path)
    assert not folder.save()
    assert folder.full
