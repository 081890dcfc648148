# SPDX-License-Identifier: Apache-2.0
"""A run folder that a stranger made leads nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keepstep.store import run_folders
from tests.hostile.runs import run_folder


@pytest.mark.parametrize("number", ["0/../../../outside", "/../../outside", None, [0], {"a": 1}, 0.5])
def test_a_manifest_names_no_place_outside_of_the_run(tmp_path: Path, number: object) -> None:
    (tmp_path / "outside").mkdir()
    folder = run_folder(tmp_path / "runs", attempts=[{"number": number, "began": 1.0}])
    (folder / "attempt-0").mkdir()
    assert run_folders.attempt_to_explain(folder) == folder
    assert run_folders.attempts_to_explain(folder) == {}


def test_an_attempt_that_is_a_link_is_none(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder = run_folder(tmp_path / "runs")
    (folder / "attempt-0").symlink_to(tmp_path / "outside")
    assert run_folders.attempt_to_explain(folder) == folder
    assert run_folders.attempts_to_explain(folder) == {}


def test_a_manifest_that_is_a_pipe_or_a_link_is_not_opened(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "runs")
    (folder / "manifest.json").rename(tmp_path / "elsewhere.json")
    (folder / "manifest.json").symlink_to(tmp_path / "elsewhere.json")
    assert run_folders.read_manifest(folder) is None
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    assert run_folders.read_manifest(folder) is None


def test_pruning_never_leaves_the_folder_of_runs(tmp_path: Path) -> None:
    kept = run_folder(tmp_path / "elsewhere", ended=2.0)
    root = tmp_path / "runs"
    root.mkdir()
    for number in range(8):
        (root / f"link-{number}").symlink_to(kept)
    assert run_folders.prune(root, most_s=0.0, least=0) == []
    assert (kept / "manifest.json").exists()


def test_the_file_for_version_control_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / ".keepstep").mkdir()
    (tmp_path / ".keepstep" / ".gitignore").symlink_to(victim)
    run_folders.create(tmp_path / ".keepstep" / "runs", ["x"], name=None, ranks=1, version="0")
    assert not victim.exists()
