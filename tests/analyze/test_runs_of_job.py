# SPDX-License-Identifier: Apache-2.0
"""`keepstep why slurm:ID` reads the run folders that the job left: those that note it, wherever they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keepstep.analyze.runs_of_job import runs_of
from keepstep.sources.schedulers.scheduler_answer import JobLeft
from keepstep.store import run_folders


def made(root: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> Path:
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    folder = run_folders.create(root, ["train.py"], name=None, ranks=2, version="1")
    folder.save()
    return folder.path.resolve()


def left(*paths: Path, folder: Path, ids: tuple[str, ...] = ("42",), owner: int | None = None) -> JobLeft:
    return JobLeft(name="slurm job 42", paths=paths, ids=ids, folders=(folder,), owner=owner)


def test_a_run_in_the_jobs_folder_that_notes_the_job_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / run_folders.DEFAULT
    mine = made(root, monkeypatch, SLURM_JOB_ID="42")
    made(root, monkeypatch, SLURM_JOB_ID="41")
    made(root, monkeypatch)
    assert runs_of(left(folder=tmp_path)) == [mine]


@pytest.mark.parametrize("label", ["", "0: "])
def test_a_run_elsewhere_is_found_by_what_the_job_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    mine = made(tmp_path / "elsewhere", monkeypatch, SLURM_JOB_ID="42")
    other = made(tmp_path / "elsewhere", monkeypatch, SLURM_JOB_ID="41")
    out = tmp_path / "slurm-42.out"
    out.write_text(f"{label}keepstep: run {mine}: 2 processes\n{label}keepstep: run {other}: 2 processes\n")
    assert runs_of(left(out, folder=tmp_path / "job")) == [mine]
    out.write_text(f"keepstep: run elsewhere/{mine.name}: 2 processes\n")
    assert runs_of(left(out, folder=tmp_path)) == [mine], "--run-dir was relative"


def test_a_task_of_an_array_is_found_by_either_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"SLURM_JOB_ID": "45", "SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "3"}
    mine = made(tmp_path / run_folders.DEFAULT, monkeypatch, **env)
    assert runs_of(left(folder=tmp_path, ids=("42_3",))) == runs_of(left(folder=tmp_path, ids=("45",))) == [mine]
    assert runs_of(left(folder=tmp_path, ids=("42_4",))) == []


def test_a_folder_of_another_user_is_not_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / run_folders.DEFAULT, monkeypatch, SLURM_JOB_ID="42")
    assert runs_of(left(folder=tmp_path, owner=os.getuid() + 1)) == []
    assert len(runs_of(left(folder=tmp_path, owner=os.getuid()))) == 1
