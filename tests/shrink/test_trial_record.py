# SPDX-License-Identifier: Apache-2.0
"""What a rank of a trial notes about itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from keepstep.shrink.trial_process import _apart

BEGIN = (
    "import runpy; from keepstep.guard.record import trial_record; trial_record.begin(); runpy.run_path('{}/job.py')"
)
JOB = """\
def doubled(x):
    y = x * 2
    if y > 4:
        y = float(
            "nan"
        )
    return y


best, value = float("inf"), 1.0
for step in range(4):
    value = doubled(value)
    if value != value:
        raise ValueError(value)
"""


def noted(tmp_path: Path, job: str) -> dict[str, object]:
    (tmp_path / "job.py").write_text(job)
    kept = tmp_path / "kept"
    kept.mkdir()
    env = {**os.environ, "KEEPSTEP_TRIAL": str(kept), "KEEPSTEP_TRIAL_LINES": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", BEGIN.format(tmp_path)],
        env={**env, "KEEPSTEP_TRIAL_FINITE": "1"},
        capture_output=True,
        timeout=60,
    )
    found: dict[str, object] = json.loads(next(kept.glob("*.values.json")).read_text())
    return found


def test_where_a_number_first_was_none_and_that_the_failing_line_ran_once(tmp_path: Path) -> None:
    found = noted(tmp_path, JOB)
    assert (found["line"], found["again"], found["not_finite"]) == (14, False, [str(tmp_path / "job.py"), 4])


def test_a_line_that_had_been_passed_before(tmp_path: Path) -> None:
    found = noted(tmp_path, "rows = [1, 2, 0]\nfor row in rows:\n    print(\n        1 / row\n    )\n")
    assert found["again"] is True and found["not_finite"] is None
    (tmp_path / "kept").rename(tmp_path / "before")
    assert noted(tmp_path, "for row in [0, 1]:\n    print(\n        1 / row\n    )\n")["again"] is False


def test_a_file_that_is_late_is_not_one_that_nobody_writes(tmp_path: Path) -> None:
    late = "import os\nos.makedirs('{0}/saved')\nopen('{0}/saved/shard', 'w').close()\nopen('{0}/saved/manifest')\n"
    assert noted(tmp_path, late.format(tmp_path))["absent"] == "missing in 1 parts, others beside"
    (tmp_path / "kept").rename(tmp_path / "before")
    never = "open('{0}/never/manifest')\n"
    assert noted(tmp_path, never.format(tmp_path))["absent"] == "missing in 2 parts, others beside"


def test_whole_numbers_that_are_all_the_same_are_told(tmp_path: Path) -> None:
    job = "import numpy\nrows, alike, one = [3, 4], numpy.array([4, 4]), [4]\nmixed = numpy.array([4, 5])\nrows[9]\n"
    values = noted(tmp_path, job)["values"]
    assert isinstance(values, dict) and values["alike"].endswith("int64 of one number"), values
    assert (values["rows"], values["one"]) == ("list", "list") and values["mixed"].endswith("int64"), values


def test_a_rank_that_runs_more_lines_than_it_may_is_ended(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("x = 0\nwhile True:\n    x += 1\n")
    env = {**os.environ, "KEEPSTEP_TRIAL": str(tmp_path), "KEEPSTEP_TRIAL_LINES": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN.format(tmp_path)], env={**env, "KEEPSTEP_TRIAL_MOST": "3000"}, timeout=60
    )
    told = [line for line in next(tmp_path.glob("*.lines")).read_text().splitlines() if line[0] == "N"]
    assert ran.returncode == 97 and told == ["N1024", "N2048", "N3000"]


def test_only_a_rank_that_passed_the_failing_line_tells_what_the_other_lacked(tmp_path: Path) -> None:
    failed = {"file": "job.py", "line": 7, "pid": 1, "at": 2.0}
    (tmp_path / "1.lines").write_text("L1 job.py\nMrows\nL7 job.py\n")
    (tmp_path / "2.lines").write_text("L1 job.py\nL4 a b.py\nL7 job.py\nN1024\nL8 job.py\n")
    assert _apart([{**failed, "at": 3.0, "pid": 2}, failed], tmp_path) == [["a b.py", 4]]
    (tmp_path / "2.lines").write_text("L1 job.py\nL4 a b.py\nL7 job.py\nN1024\n")  # it is there, and not beyond
    assert _apart([failed], tmp_path) == []
    (tmp_path / "2.lines").write_text("L4 a b.py\nL7 job.py\nE\n")  # it ended: did it raise, too?
    assert _apart([failed], tmp_path) and not _apart([failed, {**failed, "at": 3.0, "pid": 2}], tmp_path)
