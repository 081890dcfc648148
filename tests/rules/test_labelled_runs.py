# SPDX-License-Identifier: Apache-2.0
"""Runs whose messages misname their cause, and runs that went on worse than asked for: what is said first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from keepstep.model.finding import Confidence
from tests.rules.explained import findings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "labelled"
RUNS = [run for path in sorted(FOLDER.glob("*.toml")) for run in tomllib.loads(path.read_text())["run"]]
GRADES = [grade.value for grade in Confidence]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])
def test_the_first_finding_names_what_happened(tmp_path: Path, run: dict[str, Any]) -> None:
    found = findings(tmp_path, **run["logs"])
    if not run["cause"]:
        assert [f.title for f in found] == []
        return
    assert found, "nothing was found"
    first = found[0]
    assert first.cause.value in (run["cause"], *run.get("also", ())), first.title
    assert first.cause.value not in run.get("never", ())
    assert first.severity.value == run.get("severity", "fatal"), first.title
    assert GRADES.index(first.confidence.value) >= GRADES.index(run.get("at_most", GRADES[0])), first.title
    if "ranks" in run:
        assert list(first.ranks) == run["ranks"], first.title
