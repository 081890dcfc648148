# SPDX-License-Identifier: Apache-2.0
"""`keepstep why .keepstep/guard/*`: several jobs are not told as one. Real guards in programs that fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.cli.parser import run as main
from tests.cli.test_several_runs import KEY, OUT_OF_MEMORY, run

FAILS = """\
import sys, keepstep
guard = keepstep.guard.attach()
for step in guard.steps(range(5)):
    pass
if sys.argv[1] != "well":
    raise ValueError(sys.argv[1])
"""


def failed(folder: Path, how: str, day: int) -> Path:
    """The folder of a job's guard, as if it had run on that day of the month."""
    (folder / "train.py").write_text(FAILS)
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"}
    subprocess.run([sys.executable, "train.py", how], cwd=folder, env=env, capture_output=True, check=False)
    (made,) = [each for each in (folder / ".keepstep" / "guard").glob("train-*") if "day" not in each.name]
    return made.rename(made.with_name(f"train-202611{day:02}T120000Z-day{day}"))


def report_on(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict:
    main(["why", "--json", "--no-kernel-log", *map(str, paths)])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("given", ["each", "root"])
def test_two_jobs_of_guards_are_not_one_story(tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str) -> None:
    older, newer = failed(tmp_path, "old", 1), failed(tmp_path, "today", 2)
    said = report_on(capsys, *([older, newer] if given == "each" else [older.parent]))
    assert [each["title"] for each in said["findings"]] == ["the program raised ValueError in train.py:6: today"]
    assert [line for line in said["earlier_runs"] if "another job" in line] == [
        f"{older.name}, another job: the program raised ValueError in train.py:6: old (user.code_exception)"
    ]


def test_the_newest_job_that_failed_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = failed(tmp_path, "old", 1), failed(tmp_path, "well", 2)
    said = report_on(capsys, older, newer)
    assert said["findings"][0]["title"].endswith("old") and said["verdict"] == "failed"
    assert any(line.startswith(f"{newer.name}, another job: ") for line in said["earlier_runs"])


def test_folders_of_one_job_from_several_hosts_stay_one_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = failed(tmp_path, "old", 1)
    there = tmp_path / "from-the-other-host" / here.name
    shutil.copytree(here, there)
    assert not any("another job" in line for line in report_on(capsys, here, there).get("earlier_runs", []))


def test_attempts_of_two_runs_are_not_one_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = run(tmp_path, 1, KEY), run(tmp_path, 2, OUT_OF_MEMORY)
    said = report_on(capsys, older.path / "attempt-0", newer.path / "attempt-0")
    assert len(said["findings"]) == 1 and any("another job" in line for line in said["earlier_runs"])
